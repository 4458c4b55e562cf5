"""φ of an attention output by quadrature, and what the adversary found about laws of
heads inside jax.jit.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll

K = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.5]])


def hinge(z):
    return jnp.maximum(z - 0.3, 0.0)


@pytest.mark.parametrize(("tokens", "heads"), [(2, 1), (2, 3), (3, 2)])
def test_images_have_the_moments_of_the_law_they_are_images_of(tokens: int, heads: int) -> None:
    """E f(φ(Y)) of the image is E f∘φ of Y, which comes from contour integrals."""
    y = ll.attention(ll.initial((tokens,), cov=K[:tokens, :tokens]), heads, q_std=1.5)[0]
    law, base = ll.limit(ll.relu(y)), ll.limit(y)
    assert law.kind == "quadrature"
    for k in (1, 2, 4):
        truth = float(base.expect(lambda z, k=k: jax.nn.relu(z) ** k))
        assert float(law.moment(k)) == pytest.approx(truth, rel=1e-9)
    for x in (0.2, 1.0, 4.0):
        assert abs(law.pdf(x) - base.pdf(x)) <= 5 * law.error.pdf(x) + 1e-12
        assert float(law.sf(x)) == pytest.approx(float(base.sf(x)), rel=1e-6)


def test_what_is_between_two_large_scores_counts() -> None:
    """Adversary 2726: no draw fell where the two scores are near each other, once in 10⁸ times."""
    c, k, gain = 461351573.8741247, 0.2938043050097277, 0.4831758782400792 * 0.4022907926219696
    y = ll.attention(ll.initial((2,), cov=c * np.eye(2)), 1, k_std=k, v_std=gain)
    law = ll.limit(ll.map(hinge, y)[0])
    assert float(law.kurtosis()) == pytest.approx(2.408066502833007, abs=1e-12)  # mpmath


@pytest.mark.parametrize("scale", [0.851017046826302, 0.05])
def test_averages_of_functions_with_kinks_inside_jit(scale: float) -> None:
    """Adversary 322: ψ closes over a traced number,
    so that its kink is not seen: the error must say so.
    """
    truth = 0.19779655740130603  # E max(z − ½, 0)

    @jax.jit
    def average(scale):
        y = ll.attention(ll.initial((1,), cov=scale**2 * np.eye(1)), 1)
        law = ll.average_law(y[0], lambda z: jnp.maximum(z / scale - 0.5, 0.0))
        return law.mean(), law.error.mean()

    value, error = average(scale)
    assert abs(value - truth) <= 5 * error


def test_one_head_of_many_scales_inside_jit() -> None:
    """Adversary 3080: contours of fixed size lost a hundredth of the mass of a law
    between 10 and 10⁵.
    """
    v, w = np.array([1e2, 1e4, 1e9]), np.array([0.3, 0.3, 0.4])
    points = jnp.array([0.0, 10.0, 1e3, 1e5])

    def figures(v, heads):
        law = ll.laws.HeadSum(v, heads, jnp.asarray(w))
        of_one = (law.cdf(points), law.entropy()) if heads == 1 else ()
        return law.logpdf(points), law.error.logpdf(points), *of_one

    for heads in (1, 2):
        inside = jax.jit(figures, static_argnums=1)(v, heads)
        outside = figures(v, heads)
        if heads == 1:
            for i in (0, 2, 3):
                np.testing.assert_allclose(inside[i], outside[i], rtol=1e-9)
        assert (jnp.abs(inside[0] - outside[0]) <= 5 * inside[1] + 1e-9).all()


def test_point_masses_say_so() -> None:
    """Adversary 249: tokens that cancel, under 1/n scaling."""
    x = ll.initial((2,), cov=[[1.0, -1.0], [-1.0, 1.0]])
    law = ll.limit(ll.attention(x, 1, scaling="linear")[0])
    assert "point mass" in repr(law)
    with pytest.raises(ValueError, match="a point mass has no pdf"):
        law.pdf(0.0)


def test_densities_of_what_turns_out_to_be_certain_inside_jit() -> None:
    """Adversary 3351: components without variance; outside jax.jit this is refused."""

    @jax.jit
    def density(v):
        law = ll.laws.GaussianMixture(jnp.zeros(64), v, blocks=16)
        return law.logpdf(2.0), law.error.logpdf(2.0), law.pdf(2.0)

    @jax.jit
    def of_heads(v):
        law = ll.laws.HeadSum(v, 2, jnp.ones(2) / 2)
        return law.logpdf(2.0), law.error.logpdf(2.0), law.pdf(2.0)

    for log, error, value in (density(jnp.zeros(64)), of_heads(jnp.zeros(2))):
        assert (log, value) == (-jnp.inf, 0.0)
        assert error >= 0


@pytest.mark.parametrize("heads", [1, 2, 100])
def test_outputs_with_a_mean(heads: int) -> None:
    """limit(y + 3) was centred: **1** was left out of the terms of which y + 3 consists."""
    y = ll.attention(ll.initial((2,), cov=K[:2, :2]), heads)
    base, law, both = ll.limit(y[0]), ll.limit(y[0] + 3.0), ll.limit(y + 3.0)
    assert float(law.mean()) == pytest.approx(3.0, abs=1e-12)
    assert abs(law.variance() - base.variance()) <= 5 * law.error.variance()
    assert abs(law.cdf(2.5) - base.cdf(-0.5)) <= 5 * law.error.cdf(2.5)
    np.testing.assert_allclose(both.mean(), 3.0, atol=1e-12)
    assert abs(both.marginal(0).cdf(2.5) - base.cdf(-0.5)) <= 5 * both.marginal(0).error.cdf(2.5)
    image = ll.limit(ll.relu(y[0] + 3.0))
    truth = base.expect(lambda z: jax.nn.relu(z + 3.0))
    assert abs(image.mean() - truth) <= 5 * image.error.mean() + 1e-12
