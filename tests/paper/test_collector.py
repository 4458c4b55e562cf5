"""When the tables of an experiment are ready to be drawn."""

import numpy as np
import pytest
from toy_chunks import toys

from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.reproduce import Listener, _Collector
from limitlaw.apps.reports.figure import Figure
from limitlaw.figures.picture import Picture

FIRST, SECOND, THIRD = toys(3, 0)
ARRAYS = {"x": np.zeros(1)}
EMPTY = Picture(((),))


def experiment(name, chunks, borrows=()):
    """An experiment with two tables, whose figure may show a table of `a`."""
    tables = {name: ARRAYS, f"{name}_floor": ARRAYS}
    figure = Figure(name, "", name, "", lambda *_: EMPTY, {name: ("x",)}, {"a_floor": ("x",)})
    return Experiment(name, lambda _: chunks, lambda *_: tables, (), (figure,), borrows=borrows)


@pytest.mark.parametrize("others_first", [False, True])
def test_borrowed_tables(others_first):
    """An experiment waits for those from which it borrows,
    in whatever order they stand, and gets what it may show.
    """
    a, b, c = (
        experiment("a", [FIRST, SECOND]),
        experiment("b", [THIRD], ("a",)),
        experiment("c", [THIRD], ("z",)),
    )
    advanced, ready = [], []
    listener = Listener(advanced.append, lambda tables: ready.append(set(tables)), pytest.fail)
    collector = _Collector([b, c, a] if others_first else [a, b, c], Settings(), listener)
    collector.done(FIRST, ARRAYS)
    assert ready == []
    collector.done(THIRD, ARRAYS)
    assert ready == [{"c", "c_floor"}]
    collector.done(SECOND, ARRAYS)
    assert ready[1:] == [{"a", "a_floor"}, {"a_floor", "b", "b_floor"}]
    assert sorted(advanced) == ["a", "a", "b", "c"]
    assert collector.tables.keys() == {"a", "b", "c"}
