"""Special functions for traced arguments: the distribution function of N(0, 1) and its inverse,
the complex error function, the cosine integral. For arrays on the host: quantiles of χ.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Complex, Float, Int

from limitlaw.arguments import is_traced
from limitlaw.numerics import Floats, Reals

# erfcx(z)/t = 1 + (u − 1) Σ_j c_j u^j with t = 2/(2 + z), u = 2t − 1, z ≥ 0: fitted to
# scipy.special.erfcx.
ERFCX = [
    0.4892086473789877,
    0.14562830517207362,
    0.005892258894191883,
    -0.012328856858206316,
    -0.0015735259200503051,
    0.001666066581585568,
    0.00012076067223174694,
    -0.00029788691607140344,
    3.364869247810228e-05,
    5.083112418528844e-05,
    -2.139780171154822e-05,
    -4.308727779812249e-06,
    6.516226668992865e-06,
    -1.5855514454021914e-06,
    -9.674964490872238e-07,
    9.303074009670629e-07,
    -1.6029454567429658e-07,
    -2.494646610559247e-07,
    1.3529435941344597e-07,
    3.929215591531864e-08,
    -3.2629772011936026e-08,
    -3.4686907440218997e-09,
    2.5872183876286698e-09,
]
# Faddeeva's function: a sum over so many nodes
FADDEEVA_NODES = 11
FADDEEVA_STEP = math.sqrt(math.pi / (FADDEEVA_NODES + 1))
MIDDLES, MULTIPLES = (
    FADDEEVA_STEP * (np.arange(FADDEEVA_NODES + 1) + 0.5),
    FADDEEVA_STEP * np.arange(1, FADDEEVA_NODES + 1),
)
# the cosine integral: below, the series loses less than a digit to cancellation; above, the
# fraction converges fast
SERIES_END = 4.0
# terms of the series and of the fraction, which reach full precision at SERIES_END
TERMS, FRACTION = 20, 60
# χ_D = F_D^{-1}(Φ(z)), lengths of Gaussian vectors, as smooth functions of one normal:
FARTHEST_NORMAL = 9.0  # |z|, beyond which normals have mass 2e-19
DEGREES = 32, 64, 128  # degrees of interpolating polynomials, tried one after the other
PRECISE = 1e-11  # largest error of a quantile, relative to the length
# degrees of freedom from which a series is exact to 1e-12, and SciPy soon is not
MANY_DEGREES = 2.0**16


def series(x: Reals, coefficients: list[float]) -> Reals:
    """Σ_j coefficients[j] x^j by Horner's rule."""
    total = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def ndtri(q: ArrayLike) -> Reals:
    """The quantile of N(0, 1): SciPy's, or JAX's, slow to compile, where q is traced."""
    if is_traced(q):
        return jax.scipy.special.ndtri(q)
    from scipy.special import ndtri as on_host

    return jnp.asarray(on_host(np.asarray(q)))


def _scaled(a: Reals) -> Reals:
    """Φ(−a) e^{a²/2} = erfcx(a/√2)/2 for a ≥ 0."""
    t = 2 / (2 + a * math.sqrt(0.5))
    u = 2 * t - 1
    return 0.5 * t * (1 + (u - 1) * series(u, ERFCX))


@jax.custom_jvp
def ndtr(z: Floats) -> Reals:
    """Φ(z), relatively to 1e-14 (2e-13 at −37), ten times as fast as jax.scipy's on a CPU."""
    a = jnp.abs(z)
    tail = _scaled(a) * jnp.exp(-0.5 * a * a)
    return jnp.where(z > 0, 1 - tail, tail)


@ndtr.defjvp
def _derivative(primals: tuple[Floats], tangents: tuple[Floats]) -> tuple[Reals, Reals]:
    """The derivative Φ' = n, the normal density."""
    (z,), (dz,) = primals, tangents
    return ndtr(z), jnp.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) * dz


@jax.custom_jvp
def log_ndtr(z: Floats) -> Reals:
    """log Φ(z), relatively to 1e-14 also where Φ(z) underflows: −5·10⁷ at −10⁴."""
    a = jnp.abs(z)
    scaled = _scaled(a)
    above, below = jnp.log1p(-scaled * jnp.exp(-0.5 * a * a)), jnp.log(scaled) - 0.5 * a * a
    return jnp.where(z > 0, above, below)


@log_ndtr.defjvp
def _log_derivative(primals: tuple[Floats], tangents: tuple[Floats]) -> tuple[Reals, Reals]:
    """The derivative n/Φ, where z < 0 as 1/(√2π e^{z²/2} Φ), in which nothing underflows."""
    (z,), (dz,) = primals, tangents
    below = 1 / _scaled(jnp.where(jnp.isinf(z), 0.0, jnp.abs(z)))
    ratio = jnp.where(z > 0, jnp.exp(-0.5 * z * z) / ndtr(z), below) / math.sqrt(2 * math.pi)
    return log_ndtr(z), jnp.where(jnp.isinf(z), 0.0, ratio) * dz


def faddeeva(z: Complex[Array, "..."]) -> Complex[Array, "..."]:
    """w(z) = e^{−z²} erfc(−iz) for Im z ≥ 0, with 15 digits.

    w(z) = (iz/π) ∫ e^{−t²}/(z² − t²) dt by the midpoint or the trapezoidal rule, whichever has its
    nodes farther from z, with the residue at z where that is near the axis (Al Azah and
    Chandler-Wilde, SIAM J. Numer. Anal. 59, 2021).
    """
    left, x, y = z.real < 0, jnp.abs(z.real), z.imag
    high = y >= jnp.maximum(x, math.pi / FADDEEVA_STEP)
    part = (x / FADDEEVA_STEP) % 1
    middle = high | (y >= x) | (part < 0.25) | (part > 0.75)
    z = x + 1j * y
    low = jnp.where(high, 1 + 0.5j, z)  # where a residue is needed
    residue = 2 * jnp.exp(-low * low)
    turn = jnp.exp(2j * math.pi / FADDEEVA_STEP * low)  # at most 1: e^{−2πiz/h} may overflow
    by_middles = _sum(z, MIDDLES) + jnp.where(high, 0, residue * turn / (turn + 1))
    away = jnp.where(middle, 1.0, z)
    at_zero = 1j * FADDEEVA_STEP / (math.pi * away)
    by_multiples = at_zero + _sum(away, MULTIPLES) + residue * turn / (turn - 1)
    w = jnp.where(middle, by_middles, by_multiples)
    return jnp.where(left, w.conj(), w)  # w(−z̄) is the conjugate of w(z)


def _sum(z: Complex[Array, "..."], nodes: np.ndarray) -> Complex[Array, "..."]:
    """(2ih/π) Σ_k e^{−t_k²} z/(z² − t_k²): the rule for the nodes ±t_k together."""
    ratio = nodes / jnp.where(z == 0, 1, z)[..., None]
    terms = np.exp(-(nodes**2)) / ((z[..., None] - nodes) * (1 + ratio))
    return jnp.where(z == 0, 0, 2j * FADDEEVA_STEP / math.pi * jnp.sum(terms, -1))


def half_line(u: Reals, tau: Reals) -> Complex[Array, "..."]:
    """e^{−iuτ} E e^{iτZ} 1{Z > u} = ½ e^{−u²/2} w((τ + iu)/√2), for u ≥ 0 and a standard normal Z:
    a Fourier integral over part of its law.
    """
    return 0.5 * jnp.exp(-(u**2) / 2) * faddeeva((tau + 1j * u) / math.sqrt(2))


@jax.jit
def cosine_integral(x: Reals) -> Reals:
    """Ci x = γ + log x + ∫₀ˣ (cos t − 1)/t dt, x > 0: Abramowitz and Stegun (1964), 5.2.16
    (series), and 5.1.22 with 5.2.23, the continued fraction of E₁(ix) = −Ci x + i(Si x − π/2).
    """
    small, large = jnp.minimum(x, SERIES_END), jnp.maximum(x, SERIES_END)
    return jnp.where(x < SERIES_END, _cosine_series(small), _cosine_fraction(large))


def _cosine_series(x: Reals) -> Reals:
    """γ + log x + Σ_k (−x²)^k / (2k (2k)!)."""
    total = jnp.zeros_like(x)
    for k in range(TERMS, 0, -1):
        total = total * -(x**2) + 1 / (2 * k * math.factorial(2 * k))
    return np.euler_gamma + jnp.log(x) - x**2 * total


def _cosine_fraction(x: Reals) -> Reals:
    """−Re E₁(ix), E₁(z) = e^{−z} / (z + 1 − 1²/(z + 3 − 2²/(z + 5 − …)))."""
    z = 1j * x

    def above(i: Int[Array, ""], below: Complex[Array, "..."]) -> Complex[Array, "..."]:
        k = FRACTION - i
        return z + 2 * k - 1 - k**2 / below

    below = jax.lax.fori_loop(0, FRACTION, above, z + 2 * FRACTION + 1)
    return -(jnp.exp(-z) / below).real


# --- quantiles of χ, on the host -----------------------------------------------------------------


def chi_quantile(df: int | float, z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The length χ_df whose quantile is the normal z's, to a relative 1e-11, by a Chebyshev
    interpolant of its logarithm: ten times as fast as inverse incomplete gamma functions.
    """
    polynomial = _interpolant(float(df))
    if polynomial is None:
        return _quantile(df, z)
    return np.asarray(np.exp(polynomial(np.clip(z, -FARTHEST_NORMAL, FARTHEST_NORMAL))))


@functools.lru_cache(maxsize=256)
def _interpolant(df: float) -> np.polynomial.Chebyshev | None:
    """log χ_df as a polynomial in the normal z, or None where none is precise enough."""
    for degree in DEGREES:
        polynomial = np.polynomial.Chebyshev.interpolate(
            lambda z: np.log(_quantile(df, z)), degree, domain=[-FARTHEST_NORMAL, FARTHEST_NORMAL]
        )
        z = np.linspace(-FARTHEST_NORMAL, FARTHEST_NORMAL, 4 * degree + 3)
        exact = _quantile(df, z)
        if np.abs(np.exp(polynomial(z)) / exact - 1).max() < PRECISE:
            return polynomial
    return None


def _quantile(df: int | float, z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    if df > MANY_DEGREES:
        return _cornish_fisher(df, z)
    from scipy.special import gammainccinv, gammaincinv, ndtr

    tail = ndtr(-np.abs(z))  # the smaller one, so that both ends keep their digits
    square = 2 * np.where(z < 0, gammaincinv(df / 2, tail), gammainccinv(df / 2, tail))
    return np.asarray(np.sqrt(square))


def _cornish_fisher(df: int | float, z: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The length χ_df by Cornish and Fisher's expansion of χ²_df/df.

    SciPy's lower tail is off by up to 5e-6 from df = 2²⁴ on.
    """
    s = np.sqrt(2 * df)
    square = 1 + 2 * z / s + 2 / 3 * (z**2 - 1) / df + (z**3 - 7 * z) / (9 * s * df)
    fourth, fifth = 6 * z**4 + 14 * z**2 - 32, 9 * z**5 + 256 * z**3 - 433 * z
    square += -fourth / (405 * df**2) + fifth / (4860 * s * df**2)
    return np.asarray(np.sqrt(df * square))


def chi_of_normals(df: Float[np.ndarray, " r"], z: Float[Array, " r"]) -> Float[Array, " r"]:
    """The lengths χ_df whose quantiles are those of the normals z, as `chi_quantile` has them, to
    be differentiated; entries with df = ∞ stay normals.
    """
    lengths = np.flatnonzero(np.isfinite(df))
    if not len(lengths):
        return z
    polynomials = [_interpolant(float(each)) for each in df[lengths]]
    if None in polynomials:
        raise ValueError(f"df must be ≥ 1, got {df[lengths].min():g}")
    order = max(len(polynomial.coef) for polynomial in polynomials if polynomial)
    coefficients = np.array(
        [np.pad(p.coef, (0, order - len(p.coef))) for p in polynomials if p is not None]
    )
    x = jnp.clip(z[lengths], -FARTHEST_NORMAL, FARTHEST_NORMAL) / FARTHEST_NORMAL

    def step(later: tuple[Array, Array], c: Array) -> tuple[tuple[Array, Array], None]:
        return (c + 2 * x * later[0] - later[1], later[0]), None  # Clenshaw's recurrence

    last = jnp.zeros_like(x)
    (b0, b1), _ = jax.lax.scan(step, (last, last), jnp.asarray(coefficients.T[:0:-1]))
    return z.at[lengths].set(jnp.exp(coefficients[:, 0] + x * b0 - b1))
