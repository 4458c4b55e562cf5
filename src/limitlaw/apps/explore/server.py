"""The server of the explorer: Flask on loopback, which answers only the page that it serves
itself.
"""

import contextlib
import json
import os
import re
import socket
import sys
import threading
import traceback
import webbrowser
from collections.abc import Callable
from importlib import resources
from typing import Any

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from limitlaw.apps.explore import answers, programs
from limitlaw.apps.explore.choice import DEFAULTS, FIELDS, Choice, choice_of
from limitlaw.apps.explore.worker import Busy, Superseded, Worker

HOST = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' "
    "data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)  # plotly.js writes styles into its elements
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
ASKED: dict[str, Callable[..., Any]] = {
    "preview": answers.preview,
    "limit": answers.limit,
    "exact": answers.exact,
    "more": answers.more,
    "simulated": answers.simulated,
    "depth": answers.depth,
    "program": answers.program,
}
# the rank of each kind of question: slow ones come last
RANKS = {"limit": 1, "more": 2, "simulated": 3, "depth": 3}
FILES: dict[str, Callable[[Choice, Callable[[], bool]], str]] = {
    "law.csv": answers.law_csv,
    "depth.csv": answers.depth_csv,
    "law.py": lambda choice, stopped: programs.layer_code(choice),
    "depth.py": lambda choice, stopped: programs.network_code(choice),
}
ASSETS = {
    "explore.css": "text/css",
    "explore.js": "text/javascript",
    "plots.js": "text/javascript",
}


class Explorer:
    """A server that is ready when it is made; `serve` answers until `close`."""

    def __init__(self, port: int = 0) -> None:
        self.worker = Worker()
        with socket.create_server((HOST, port)) as listening:
            self.port: int = listening.getsockname()[1]
            app = _app(self.worker, {f"{name}:{self.port}" for name in (HOST, "localhost")})
            self._server: BaseWSGIServer = make_server(
                HOST, self.port, app, threaded=True, request_handler=_Quiet, fd=listening.fileno()
            )

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.port}/"

    def warm_up(self) -> None:
        """Compile what the page shows first, and the same program for correlated tokens."""
        for choice in (Choice(), Choice(correlation=0.1)):
            for kind in ("preview", "exact", "limit", "more"):
                threading.Thread(target=self._compile, args=(kind, choice), daemon=True).start()

    def _compile(self, kind: str, choice: Choice) -> None:
        with contextlib.suppress(Superseded):  # the server was closed before
            who, rank = ("warm-up", kind, choice), RANKS.get(kind, 0)
            self.worker.ask(
                who, (kind, choice), lambda stopped: _json(ASKED[kind](choice, stopped)), rank
            )

    def open(self) -> None:
        """Show the page in the browser, if there is one."""
        threading.Thread(target=webbrowser.open, args=(self.address,), daemon=True).start()

    def serve(self) -> None:
        """Answer until `close`, or Ctrl-C."""
        self._server.serve_forever()

    def leave(self) -> None:
        """End the process at once: a compiler at work cannot be interrupted."""
        sys.stdout.flush()
        os._exit(0)

    def close(self) -> None:
        """Stop answering and computing."""
        self.worker.stop()
        self._server.shutdown()
        self._server.server_close()


class _Quiet(WSGIRequestHandler):
    """A request handler that writes no line for each request, and closes connections that say
    nothing.
    """

    timeout = 30

    def log(self, type: str, message: str, *args: Any) -> None:
        if type == "error":
            sys.stderr.write(f"limitlaw: {message % args}\n")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def _app(worker: Worker, own: set[str]) -> Flask:
    app = Flask(__name__, static_folder=None, template_folder="page")
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.before_request(lambda: _foreign(own))
    app.after_request(_with_headers)
    app.register_error_handler(Exception, _failed)
    app.add_url_rule(
        "/", "page", lambda: render_template("index.html", fields=FIELDS, defaults=DEFAULTS)
    )
    app.add_url_rule("/<name>", "asset", _asset)
    app.add_url_rule("/api/<kind>", "answer", lambda kind: _answer(worker, kind))
    app.add_url_rule(
        "/api/stop/<kind>", "stop", lambda kind: _stop(worker, kind), methods=["POST"]
    )
    app.add_url_rule("/download/<name>", "download", lambda name: _download(worker, name))
    return app


# --- who may ask ---------------------------------------------------------------------------------


def _foreign(own: set[str]) -> Response | None:
    """Refuse other hosts (names that were made to point here), origins, and embedding pages."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
    followed = request.path == "/" and request.headers.get("Sec-Fetch-Mode") == "navigate"
    if request.host not in own:
        return _error(403, f"the explorer answers to {' and '.join(sorted(own))} only")
    if origin is not None and origin not in {f"http://{host}" for host in own}:
        return _error(403, "the explorer answers its own page only")
    if site not in ("none", "same-origin") and not followed:
        return _error(403, "the explorer answers its own page only")
    return None


def _with_headers(response: Response) -> Response:
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


# --- what they are told --------------------------------------------------------------------------


def _asset(name: str) -> Response:
    if name == "plotly.min.js":
        text = (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()
        return Response(
            text, mimetype="text/javascript", headers={"Cache-Control": "max-age=86400"}
        )
    if name not in ASSETS:
        return _error(404, "there is no such page")
    return Response(
        (resources.files(__package__) / "page" / name).read_bytes(), mimetype=ASSETS[name]
    )


def _answer(worker: Worker, kind: str) -> Response:
    if kind not in ASKED:
        return _error(404, f"there is no such answer; there are {', '.join(ASKED)}")
    choice, who = _asked(kind)
    compute = ASKED[kind]
    text = worker.ask(
        who, (kind, choice), lambda stopped: _json(compute(choice, stopped)), RANKS.get(kind, 0)
    )
    return Response(text, mimetype="application/json")


def _download(worker: Worker, name: str) -> Response:
    if name not in FILES:
        return _error(404, f"there is no such file; there are {', '.join(FILES)}")
    choice, who = _asked(name)
    text = worker.ask(who, (name, choice), lambda stopped: FILES[name](choice, stopped).encode())
    kind = "text/csv" if name.endswith("csv") else "text/x-python"
    return Response(
        text,
        mimetype=kind,
        headers={"Content-Disposition": f"attachment; filename=limitlaw-{name}"},
    )


def _stop(worker: Worker, kind: str) -> Response:
    return Response(
        _json({"stopped": worker.forget((_page(), kind))}), mimetype="application/json"
    )


def _asked(kind: str) -> tuple[Choice, Any]:
    """The choice, and who asked: a page waits for one answer of each kind, others for any."""
    choice = choice_of(
        [(name, text) for name, text in request.args.items(multi=True) if name != "page"]
    )
    page = _page()
    return choice, (page, kind) if page else object()


def _page() -> str:
    page = request.args.get("page", "")
    if not re.fullmatch(r"[a-z0-9]{0,32}", page):
        raise ValueError("page must be a few letters and digits")
    return page


def _failed(error: Exception) -> Response:
    """An error as one readable line."""
    if isinstance(error, HTTPException):
        return _error(error.code or 500, error.description or error.name)
    if isinstance(error, Superseded):
        return _error(409, "a newer choice took its place")
    if isinstance(error, Busy):
        return _error(503, f"busy: {error}. Try again in a few seconds")
    if isinstance(error, ValueError):
        return _error(400, str(error))
    traceback.print_exception(error)
    return _error(
        500,
        f"this failed, which is a bug of limitlaw ({type(error).__name__}); the terminal says "
        "more",
    )


def _error(status: int, message: str) -> Response:
    return Response(
        _json({"error": re.sub(r"\s*\n\s*", " ", message)}), status, mimetype="application/json"
    )


def _json(answer: object) -> bytes:
    return json.dumps(answer, allow_nan=False).encode()
