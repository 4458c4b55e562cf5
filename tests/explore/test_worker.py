"""The queue in front of the one thread that computes."""

import threading
import time

import pytest

import limitlaw as ll
from limitlaw.apps.explore import worker
from limitlaw.apps.explore.worker import Busy, Superseded, Worker
from limitlaw.progress import stoppable


class Asking(threading.Thread):
    """A question in a thread of its own; what came of it."""

    def __init__(self, one, who, key, compute=lambda stopped: b"quick", rank=0):
        super().__init__(daemon=True)
        self.arguments, self.one, self.outcome = (who, key, compute, rank), one, None
        self.start()

    def run(self):
        try:
            self.outcome = self.one.ask(*self.arguments)
        except Exception as error:
            self.outcome = error

    def result(self):
        self.join(10)
        return self.outcome


@pytest.fixture
def busy():
    """A worker that computes something until `release` is set, or until nobody wants it."""
    one, release, started, stopped = Worker(), threading.Event(), threading.Event(), []

    def long(is_stopped):
        started.set()
        while not release.wait(0.005):
            if is_stopped():
                stopped.append(True)
                raise InterruptedError
        return b"long"

    first = Asking(one, ("a", "law"), "long", long)
    assert started.wait(10)
    yield one, first, release, stopped
    release.set()
    one.stop()


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_a_newer_question_takes_the_place_of_an_older_one(busy):
    """Waiting ones are never computed, the one under way is told;
    other pages are not disturbed.
    """
    one, first, _, stopped = busy
    calls = []
    waiting = Asking(one, ("b", "law"), 1, lambda s: calls.append(1) or b"1")
    other = Asking(one, ("c", "law"), 2, lambda s: calls.append(2) or b"2")
    until(lambda: len(one._waiting) == 2)
    newer = Asking(one, ("b", "law"), 3, lambda s: calls.append(3) or b"3")
    assert isinstance(waiting.result(), Superseded)
    assert one.forget(("a", "law"))
    assert isinstance(first.result(), Superseded)
    assert (other.result(), newer.result()) == (b"2", b"3")
    assert calls == [2, 3]
    assert stopped == [True]
    assert not one.forget(("a", "law"))


def test_an_engine_that_draws_is_ended():
    """At its next batch, when nobody wants its answer; the next question is answered as ever."""
    one, started, ended = Worker(), threading.Event(), []

    def long(_):
        started.set()
        try:
            ll.simulate(ll.Matrix() @ ll.initial(), 8, 2**22, 0)  # 2,048 batches
        except InterruptedError:
            ended.append(True)
            raise
        return b"drawn"

    asking = Asking(one, "a", "long", long)
    assert started.wait(10)
    assert one.forget("a")
    assert isinstance(asking.result(), Superseded)
    assert one.ask("b", 1, lambda _: str(ll.simulate(ll.initial(), 8, 2, 0).shape).encode()) == (
        b"(2,)"
    )
    assert ended == [True]
    one.stop()


def test_a_divergence_is_ended_as_well():
    """At the next block of its integrand."""
    p, q = ll.GaussianMixture([0.0, 1.0], [1.0, 2.0]), ll.Gaussian(0.0, 1.0)
    with stoppable(lambda: True), pytest.raises(InterruptedError):
        ll.divergence.kl(p, q)
    assert ll.divergence.kl(p, q).value > 0


def test_equal_questions_are_computed_once(busy):
    """For all who ask, and it goes on while one of them wants it."""
    one, first, release, stopped = busy
    second = Asking(one, ("b", "law"), "long")
    until(lambda: len(one._jobs["long"].wanted_by) == 2)
    one.forget(("a", "law"))
    release.set()
    assert isinstance(first.result(), Superseded)
    assert second.result() == b"long"
    assert stopped == []
    assert one.ask(("d", "law"), "long", lambda s: b"again") == b"long"


def test_what_is_quick_comes_first(busy):
    """And else what was asked for first."""
    one, _, release, _ = busy
    calls = []
    asked = []
    for i, rank in enumerate((2, 1, 0, 1, 0)):
        asked.append(Asking(one, i, i, lambda s, i=i: calls.append(i) or b"", rank))
        until(lambda i=i: len(one._waiting) == i + 1)
    release.set()
    for question in asked:
        question.result()
    assert calls == [2, 4, 1, 3, 0]


def test_a_full_queue_says_so(busy, monkeypatch):
    """At once; and patience has an end."""
    one, *_ = busy
    monkeypatch.setattr(worker, "MOST_WAITING", 2)
    for who in "bc":
        Asking(one, who, who)
    until(lambda: len(one._waiting) == 2)
    with pytest.raises(Busy, match="2 questions wait already"):
        one.ask("d", "d", lambda s: b"")
    monkeypatch.setattr(worker, "PATIENCE", 0.01)
    with pytest.raises(Busy, match="no answer within"):
        one.ask("e", "long", lambda s: b"")


def test_the_worker_forgets_the_oldest_answers(monkeypatch):
    """As many as it may keep, and no more; an error is not kept,
    and is raised where it was asked for.
    """
    monkeypatch.setattr(worker, "MOST_KEPT", 2)
    calls = []
    one = Worker()

    def ask(key):
        return one.ask("me", key, lambda stopped: calls.append(key) or str(key).encode())

    assert [ask(key) for key in (1, 2, 1, 3, 1, 2)] == [b"1", b"2", b"1", b"3", b"1", b"2"]
    assert calls == [1, 2, 3, 2]
    with pytest.raises(ValueError, match="no"):
        one.ask("me", 9, lambda stopped: (_ for _ in ()).throw(ValueError("no")))
    one.stop()
