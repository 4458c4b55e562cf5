"""`limitlaw explore` from a terminal."""

import socket

from typer.testing import CliRunner

from limitlaw.apps.cli import app
from limitlaw.apps.explore.server import Explorer


def test_bad_ports_are_a_line():
    """Too large, or taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for port, words in (
            (70000, "must be from 1 to 65535"),
            (taken.getsockname()[1], "is not to be had"),
        ):
            result = CliRunner().invoke(app, ["explore", "--no-browser", "--port", str(port)])
            assert result.exit_code == 2
            assert result.stderr.startswith("limitlaw: --port ")
            assert words in result.stderr
            assert result.stderr.count("\n") == 1


def test_it_says_where_it_is(monkeypatch):
    """An address on loopback, before the first program is compiled."""
    for name in ("warm_up", "leave"):
        monkeypatch.setattr(Explorer, name, lambda self: None)
    monkeypatch.setattr(
        Explorer, "serve", lambda self: (self.worker.stop(), self._server.server_close())
    )
    result = CliRunner().invoke(app, ["explore", "--no-browser"])
    assert result.exit_code == 0
    assert result.stdout.startswith("limitlaw explore: http://127.0.0.1:")


def test_without_flask_it_says_what_to_install(monkeypatch):
    """One line."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["explore"])
    assert (result.exit_code, result.stderr) == (
        2,
        "limitlaw: explore needs Flask: pip install 'limitlaw[explore]'\n",
    )


def test_help_names_it():
    """In the list of commands."""
    assert "explore" in CliRunner().invoke(app, ["--help"]).stdout
