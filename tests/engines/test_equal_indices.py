"""Second moments that nobody reads are not computed:
networks of positions against the whole recursion in NumPy.
"""

import functools

import numpy as np
import pytest

import limitlaw as ll
from limitlaw.core.labelled import Axis
from limitlaw.engines.limit.facts import LimitFacts
from limitlaw.engines.limit.moments import Moments

IMAGES, LENGTH = 2, 4


class Whole:
    """A batch of wide vectors with all of its covariances,
    beside the program that stands for it.
    """

    def __init__(self, x: ll.Wide, K: np.ndarray):
        self.x, self.K = x, K  # K[a, p, b, q]

    def relu(self) -> "Whole":
        length = np.sqrt(np.einsum("apap->ap", self.K))
        product = np.einsum("ap,bq->apbq", length, length)
        c = np.clip(self.K / product, -1, 1)
        F = product * (np.sqrt(1 - c**2) + (np.pi - np.arccos(c)) * c) / (2 * np.pi)
        return Whole(ll.relu(self.x), F)

    def conv(self, size: int, padding: str, stride: int) -> "Whole":
        s, centre = self.K.shape[1], 0 if padding == "valid" else (size - 1) // 2
        places = range(0, s - size + 1 if padding == "valid" else s, stride)
        K = np.full((IMAGES, len(places), IMAGES, len(places)), 0.3**2)
        for i, p in enumerate(places):
            for k, q in enumerate(places):
                for j in range(size):
                    a, b = p + j - centre, q + j - centre
                    if padding == "circular":
                        a, b = a % s, b % s
                    if 0 <= a < s and 0 <= b < s:
                        K[:, i, :, k] += 1.4**2 / size * self.K[:, a, :, b]
        return Whole(ll.conv1d(self.x, size, 1.4, 0.3, padding, stride=stride), K)

    def linear(self, x: ll.Wide, A: np.ndarray) -> "Whole":
        return Whole(x, np.einsum("ip,apbq,kq->aibk", A, self.K, A))

    def folded(self) -> "Whole":
        """x + its mirror image: two places of the same vectors meet."""
        s = self.K.shape[1]
        return self.linear(self.x + self.x[..., ::-1], np.eye(s) + np.eye(s)[::-1])

    def differences(self) -> "Whole":
        s = self.K.shape[1]
        return self.linear(self.x[..., 1:] - self.x[..., :-1], np.eye(s)[1:] - np.eye(s)[:-1])

    def own_matrices(self) -> "Whole":
        """A matrix for each position: positions are independent afterwards."""
        s = self.K.shape[1]
        return Whole(ll.Matrix(1.2, shape=(s,)) @ self.x, 1.2**2 * self.K * np.eye(s)[:, None, :])

    def plus(self, other: "Whole") -> "Whole":
        """Of independent vectors."""
        return Whole(self.x + other.x, self.K + other.K)

    def flattened(self) -> "Whole":
        K = np.einsum("apbp->ab", self.K) / self.K.shape[1]
        return Whole(ll.readout(self.x, 1, "flatten"), K)

    def averaged(self) -> "Whole":
        return Whole(ll.readout(self.x, 1, "average"), self.K.mean(axis=(1, 3)))

    def at_one_place(self) -> "Whole":
        return Whole(self.x[:, 1], self.K[:, 1, :, 1])

    def everything(self) -> "Whole":
        return self


ENDS = ("flattened", "averaged", "at_one_place", "everything")


def network(seed: int) -> Whole:
    """Random layers, and a random readout."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(IMAGES * LENGTH, 6))
    K = (A @ A.T).reshape(IMAGES, LENGTH, IMAGES, LENGTH) / 6
    net = Whole(ll.initial((IMAGES, LENGTH), cov=K.reshape(IMAGES * LENGTH, -1)), K)
    for _ in range(rng.integers(1, 4)):
        match rng.integers(5):
            case 0:
                net = net.folded()
            case 1 if net.K.shape[1] > 2:
                net = net.differences()
            case 2:
                net = net.relu().own_matrices()
            case 3:
                net = net.plus(net.relu().conv(3, str(rng.choice(["same", "circular"])), 1))
        longest = min(3, net.K.shape[1])
        padding = str(rng.choice(["same", "circular", "valid"]))
        net = net.relu().conv(int(rng.integers(1, longest + 1)), padding, int(rng.integers(1, 3)))
        if net.K.shape[1] < 2:
            break
    return getattr(net, ENDS[seed % 4] if net.K.shape[1] > 1 else "flattened")()


def is_right(net: Whole) -> None:
    m = int(np.prod(net.x.shape))
    np.testing.assert_allclose(
        np.asarray(ll.kernel(net.x)).reshape(m, m), net.K.reshape(m, m), atol=1e-12
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_of_positions(seed: int) -> None:
    is_right(network(seed))


@pytest.mark.parametrize("seed", range(24, 28))
def test_what_is_expected_to_be_read_costs_time_at_most(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`apart` is a guess: whatever it says, what is read is right."""

    def guessed(facts: LimitFacts) -> dict:
        rng = np.random.default_rng(seed)

        def some(axes: tuple[Axis, ...]) -> frozenset[Axis]:
            return frozenset(axis for axis in axes if rng.integers(2))

        return {v: some(v.axes) for v in facts.roots}

    monkeypatch.setattr(LimitFacts, "apart", property(functools.cache(guessed)))
    ll.clear_cache()
    is_right(network(seed))
    monkeypatch.undo()
    ll.clear_cache()


def test_pixels_that_never_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A readout with a matrix for each pixel needs covariances at equal pixels,
    through all layers.
    """
    largest, covariance = [0], Moments.covariance

    def recorded(self, *args):
        block = covariance(self, *args)
        largest[0] = max(largest[0], 0 if block is None else block.c.array.size)
        return block

    monkeypatch.setattr(Moments, "covariance", recorded)
    x = ll.data(np.random.default_rng(0).normal(size=(3, 6, 5, 2)))
    for _ in range(2):
        x = ll.relu(ll.conv2d(x, 3, bias_std=0.1))
    K = ll.kernel(ll.readout(x, 2, "flatten"))
    assert largest[0] == 3 * 3 * 9 * 6 * 5
    assert np.shape(K) == (3, 3)


def test_matrices_that_meet_the_same_data() -> None:
    """Σ_j W_j x: products of different matrices are independent,
    also where only equal positions are read.
    """
    X = np.random.default_rng(0).normal(size=(IMAGES, LENGTH, 3))
    K = np.einsum("apc,bqc->apbq", X, X)
    summed = (ll.Matrix(shape=(3, 1, 1), cols=3) @ ll.data(X)[None]).sum(axis=0)
    is_right(Whole(summed, K).relu().flattened())
