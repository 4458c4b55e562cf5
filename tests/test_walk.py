"""The walk of docs/architecture.md is that of the code, and passes each station once."""

import pytest

import walk


@pytest.fixture(scope="module")
def walks() -> walk.Walks:
    """Each call, as it was traced."""
    return {title: walk.stations(call) for title, call in walk.CALLS.items()}


def test_the_page_is_true(walks: walk.Walks) -> None:
    """`python tests/walk.py` would change nothing: the names are those that are met."""
    (page,) = walk.BLOCK.findall(walk.PAGE.read_text(encoding="utf-8"))
    assert page == walk.written(walks)


def test_stations_come_in_order(walks: walk.Walks) -> None:
    """The program is read before an engine runs it, and a law is made at the end."""
    order = ["core program", "engine", "law"]
    for title, stations in walks.items():
        found = [name for name, _ in stations if name in order]
        assert found == [name for name in order if name in found], title
        assert found[:2] == order[:2], title
