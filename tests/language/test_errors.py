"""Bad input gives a clear error: the message names the argument,
what was expected and what came.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll

pytestmark = pytest.mark.usefixtures("as_user")

h = ll.initial()
x = ll.initial(4)
narrow = ll.initial(4, dim=5)
p = ll.dot(x, ll.Matrix() @ x)
M = ll.Matrix()
turned = ll.rotary(x, np.arange(4))
infinite = ll.attention(x, heads=math.inf)


def draw(y=h, width=4, samples=2, key=0, **options):
    """`simulate` with good arguments in all places but one."""
    return ll.simulate(y, width, samples, key, **options)


def refuses(call, error, match):
    """`call` raises exactly `error`, in one short line that matches."""
    with pytest.raises(error, match=match) as caught:
        call()
    assert type(caught.value) is error
    assert len(str(caught.value)) < 300
    return caught.value


def cases(**table):
    """A table of name: (call, error, what its message matches) as a parametrisation."""
    return pytest.mark.parametrize(("call", "error", "match"), table.values(), ids=table.keys())


@cases(
    zero=(lambda: draw(width=0), ValueError, "width must be a positive integer, got 0"),
    negative=(lambda: draw(width=-3), ValueError, "width must be a positive integer, got -3"),
    fractional=(
        lambda: draw(width=2.5),
        ValueError,
        r"width must be a positive integer, got 2\.5",
    ),
    whole_float=(
        lambda: draw(width=4.0),
        ValueError,
        r"width must be a positive integer, got 4\.0",
    ),
    boolean=(lambda: draw(width=True), TypeError, "width must be a positive integer, got True"),
    text=(lambda: draw(width="4"), TypeError, "width must be a positive integer, got '4'"),
    indivisible=(
        lambda: draw(ll.initial(dim=ll.n / 2), width=5),
        ValueError,
        r"width=5 .* n/2 .* divisible by 2",
    ),
    indivisible_inside=(
        lambda: draw(ll.Matrix(cols=2 * ll.n / 3) @ (ll.Matrix(rows=2 * ll.n / 3) @ h), width=4),
        ValueError,
        r"width=4 .* 2n/3 .* divisible by 3",
    ),
    no_samples=(lambda: draw(samples=0), ValueError, "samples must be a positive integer, got 0"),
    negative_samples=(
        lambda: draw(samples=-1),
        ValueError,
        "samples must be a positive integer, got -1",
    ),
    fractional_samples=(
        lambda: draw(samples=1.5),
        ValueError,
        r"samples must be a positive integer, got 1\.5",
    ),
    no_coordinates=(
        lambda: draw(coordinates=0),
        ValueError,
        "coordinates must be a positive integer, got 0",
    ),
    coordinates=(
        lambda: draw(coordinates=5),
        ValueError,
        r"coordinates must be at most the 4 .* width=4, got 5",
    ),
    narrow_coordinates=(
        lambda: draw(narrow, width=9, coordinates=6),
        ValueError,
        "coordinates .* the 5 .* got 6",
    ),
    number=(
        lambda: draw(3.0),
        TypeError,
        r"y must be a value of a program \(Wide or Scalars\).* got float",
    ),
    matrix=(lambda: draw(M), TypeError, "y must be a value of a program .* got Matrix"),
    array_in_tuple=(
        lambda: draw((h, np.ones(3))),
        TypeError,
        "y must be a value of a program .* got ndarray",
    ),
    nothing=(lambda: draw(()), ValueError, "y must hold at least one value"),
    infinite_heads=(
        lambda: draw(infinite),
        ValueError,
        r"heads=math\.inf has no meaning at finite width",
    ),
    text_key=(lambda: draw(key="abc"), TypeError, "key must be one JAX key.* got 'abc'"),
    no_key=(lambda: draw(key=None), TypeError, "key must be one JAX key.* got None"),
    float_key=(lambda: draw(key=1.5), TypeError, r"key must be one JAX key.* got 1\.5"),
    many_keys=(
        lambda: draw(key=jax.random.split(jax.random.key(0), 3)),
        TypeError,
        r"key must be one JAX key",
    ),
    raw_key=(lambda: draw(key=jnp.zeros(3, jnp.uint32)), TypeError, "key must be one JAX key"),
)
def test_simulate(call, error, match):
    """What `simulate` refuses."""
    refuses(call, error, match)


def test_32_bit_mode():
    """A transformation in JAX's 32-bit mode says the line to write."""
    traced = jax.jit(lambda x: ll.limit(ll.initial(cov=x)).variance())
    with jax.enable_x64(False):
        refuses(lambda: traced(1.0), RuntimeError, r"32 bits: write `with jax\.enable_x64")


@cases(
    nan=(
        lambda: ll.initial(2, cov=np.array([[1, np.nan], [0, 1]])),
        ValueError,
        "cov must be finite, got 1 NaN",
    ),
    asymmetric=(
        lambda: ll.initial(2, cov=np.array([[1, 0.5], [0.25, 1]])),
        ValueError,
        r"cov must be symmetric, got .*\[0, 1\] = 0\.5 and \[1, 0\] = 0\.25",
    ),
    indefinite=(
        lambda: ll.initial(2, cov=np.array([[1.0, 2.0], [2.0, 1.0]])),
        ValueError,
        r"cov must be positive semi-definite, got smallest eigenvalue -1 \(largest 3\)",
    ),
    negative=(
        lambda: ll.initial(cov=-1.0),
        ValueError,
        "cov must be positive semi-definite, .* -1",
    ),
    cov_shape=(
        lambda: ll.initial(2, cov=np.eye(3)),
        ValueError,
        r"cov must .*\(2, 2\), got shape \(3, 3\)",
    ),
    cov_text=(lambda: ll.initial(cov="I"), TypeError, "cov must be real numbers, got str"),
    mean_nan=(lambda: ll.initial(mean=math.nan), ValueError, "mean must be finite"),
    mean_shape=(lambda: ll.initial(2, mean=np.zeros(3)), ValueError, r"mean.*\(3,\) and \(2,\)"),
    mean_too_big=(
        lambda: ll.initial(mean=np.zeros(3)),
        ValueError,
        r"mean must broadcast to shape \(\), got .*\(3,\)",
    ),
    empty=(lambda: ll.initial((2, 0)), ValueError, "shape must be a positive integer, got 0"),
    fractional=(
        lambda: ll.initial(1.5),
        ValueError,
        r"shape must be a positive integer, got 1\.5",
    ),
    dim_zero=(
        lambda: ll.initial(dim=0),
        ValueError,
        r"dim must be a multiple of limitlaw\.n or a positive .* got 0",
    ),
    dim_text=(
        lambda: ll.initial(dim="n"),
        ValueError,
        r"dim must be a multiple of limitlaw\.n .* got 'n'",
    ),
    half_n=(lambda: 0.5 * ll.n, TypeError, r"positive integer or Fraction, got 0\.5"),
    minus_n=(lambda: ll.n * -1, TypeError, "positive integer or Fraction, got -1"),
    n_over_zero=(lambda: ll.n / 0, TypeError, "positive integer or Fraction, got 0"),
    data_nan=(
        lambda: ll.data(np.array([1, np.inf])),
        ValueError,
        "X must be finite, got 1 NaN or infinite of 2",
    ),
    data_number=(
        lambda: ll.data(1.0),
        ValueError,
        r"X must have a coordinate axis .* got shape \(\)",
    ),
    data_empty=(lambda: ll.data(np.ones((0, 3))), ValueError, r"X must .* got shape \(0, 3\)"),
    data_complex=(
        lambda: ll.data(np.ones(3) * 1j),
        TypeError,
        "X must be real numbers, got .*complex128",
    ),
    std_negative=(lambda: ll.Matrix(std=-1.0), ValueError, "std must be ≥ 0, got -1"),
    std_nan=(lambda: ll.Matrix(std=math.nan), ValueError, "std must be finite"),
    std_shape=(lambda: ll.Matrix(std=np.ones(3), shape=2), ValueError, r"std.*\(3,\) and \(2,\)"),
    matrix_shape=(
        lambda: ll.Matrix(shape=(2, -1)),
        ValueError,
        "shape must be a positive integer, got -1",
    ),
    rows=(lambda: ll.Matrix(rows=0), ValueError, "rows must be .* got 0"),
    cols=(lambda: ll.Matrix(cols=2.5), ValueError, r"cols must be .* got 2\.5"),
    no_matrices=(lambda: ll.matrices(0), ValueError, "m must be a positive integer, got 0"),
)
def test_leaves(call, error, match):
    """What initial vectors, data and matrices refuse."""
    refuses(call, error, match)


def test_rounding_is_forgiven():
    """A covariance that is symmetric and semi-definite up to rounding passes,
    singular ones too.
    """
    ll.initial(2, cov=np.array([[1.0, 1.0 + 1e-15], [1.0, 1.0]]))
    ll.initial(2, cov=np.zeros((2, 2)))


@cases(
    transposed_array=(lambda: M.T @ np.eye(3), TypeError, "M.T multiplies vectors of a program"),
    vector_left=(lambda: x @ M, TypeError, "Wide @ Matrix: write M @ x, or M.T @ x"),
    array_left=(lambda: np.eye(3) @ M, TypeError, "ndarray @ Matrix: write M @ x"),
    jax_left=(lambda: jnp.eye(3) @ M, TypeError, "@ Matrix: write M @ x"),
    scalars_left=(lambda: p @ M, TypeError, "Scalars @ Matrix: write M @ x"),
    product=(lambda: M @ M, TypeError, r"product of matrices .* A @ \(B @ x\)"),
    array=(
        lambda: M @ np.ones(3),
        TypeError,
        r"multiplies vectors of a program, got ndarray; .* data\(X\)",
    ),
    numbers=(lambda: M @ p, TypeError, "multiplies vectors of a program, got Scalars"),
    index=(lambda: M[0], TypeError, "Matrix family cannot be indexed"),
    space=(
        lambda: M @ narrow,
        ValueError,
        r"cols=n\) multiplies vectors in the space n, got .*dim=5",
    ),
    narrow=(
        lambda: ll.Matrix(cols=5) @ x,
        ValueError,
        r"cols=5\) multiplies vectors in the space 5, got .*dim=n",
    ),
    shape=(lambda: ll.matrices(3) @ x, ValueError, r"Matrix @ w: batch shapes \(3,\) and \(4,\)"),
)
def test_matrices(call, error, match):
    """What the operators of a Matrix refuse."""
    refuses(call, error, match)


@cases(
    add_shape=(lambda: x + ll.initial(3), ValueError, r"\+: batch shapes \(4,\) and \(3,\)"),
    add_space=(lambda: x + narrow, ValueError, r"\+: .*different spaces, n, 5"),
    add_text=(lambda: x + "a", TypeError, "must be real numbers, got str"),
    scale_nan=(lambda: x * math.nan, ValueError, "must be finite"),
    scale_shape=(lambda: np.ones(3) * x, ValueError, r"a \* w: batch shapes \(3,\) and \(4,\)"),
    mix_shape=(
        lambda: np.ones((3, 3)) @ x,
        ValueError,
        r"a @ w .* same j, got \(3, 3\) and \(4,\)",
    ),
    mix_number=(lambda: 2.0 @ x, ValueError, r"a @ w .* got \(\) and \(4,\)"),
    mix_vector=(lambda: p @ h, ValueError, r"a @ w .* got \(4, 4\) and \(\)"),
    mix_batch=(
        lambda: np.ones((2, 3, 4)) @ ll.initial((3, 4)),
        ValueError,
        r"a @ w: .* \(2,\) and \(3,\)",
    ),
    vector_product=(lambda: x @ x, TypeError, r"Wide is not an instruction: .* dot\(q, k\)"),
    stack_shape=(lambda: ll.stack([x, ll.initial(3)]), ValueError, r"stack .* got \(4,\), \(3,\)"),
    stack_space=(lambda: ll.stack([x, narrow]), ValueError, "stack: .*different spaces, n, 5"),
    stack_kinds=(lambda: ll.stack([x, p]), TypeError, "stack .* got Scalars, Wide"),
    stack_nothing=(
        lambda: ll.stack([]),
        TypeError,
        "stack needs one or more values, .* got nothing",
    ),
    stack_axis=(
        lambda: ll.stack([x, x], axis=2),
        ValueError,
        "stack: axis must be between -2 and 1, got 2",
    ),
    sum_axis=(lambda: x.sum(1), ValueError, r"sum: axis must be among the 1 axes .* got 1"),
    sum_twice=(
        lambda: x.sum((0, -1)),
        ValueError,
        r"sum: axis names an axis .* twice, got \(0, -1\)",
    ),
    reshape=(lambda: x.reshape(3), ValueError, r"reshape: .*\(4,\).*\(3,\)"),
    transpose=(lambda: x.transpose(1), ValueError, r"transpose: axes must be .* got \(1,\)"),
    index_range=(lambda: x[4], IndexError, r"batch shape \(4,\) cannot be indexed by .*4"),
    index_many=(lambda: x[0, 0], IndexError, r"batch shape \(4,\) cannot be indexed by \(0, 0\)"),
    index_kind=(lambda: x[1.5], IndexError, r"an index is made of integers.* got 1\.5"),
    power=(lambda: x**0.5, TypeError, r"integer powers ≥ 0, got 0\.5"),
    truth=(lambda: bool(x), TypeError, "no truth value"),
    truth_of_numbers=(lambda: bool(p), TypeError, "no truth value"),
    length=(lambda: len(h), TypeError, "without batch axes has no length"),
)
def test_operators(call, error, match):
    """What the operators of vectors and numbers refuse."""
    refuses(call, error, match)


@cases(
    dot_space=(lambda: ll.dot(x, narrow), ValueError, r"dot\(q, k\): .*different spaces, n, 5"),
    dot_batch=(
        lambda: ll.dot(ll.initial((2, 4)), ll.initial((3, 4))),
        ValueError,
        r"dot\(q, k\): .*\(2,\) and \(3,\)",
    ),
    dot_scalars=(lambda: ll.dot(x, p), TypeError, "k must be a Wide .* got Scalars"),
    dot_array=(
        lambda: ll.dot(np.ones(3), x),
        TypeError,
        r"q must be a Wide .* got ndarray; .* data\(X\)",
    ),
    scaling=(
        lambda: ll.dot(x, x, scaling="cube"),
        ValueError,
        "scaling must be one of 'sqrt', 'linear', got 'cube'",
    ),
    average=(lambda: ll.average(p), TypeError, "w must be a Wide .* got Scalars"),
    map_space=(lambda: ll.map(jnp.add, x, narrow), ValueError, "add: .*different spaces, n, 5"),
    map_shape=(
        lambda: ll.map(jnp.add, x, ll.initial(3)),
        ValueError,
        r"add: batch shapes \(4,\) and \(3,\)",
    ),
    map_numbers=(
        lambda: ll.map(jnp.sin, p),
        TypeError,
        "map needs at least one vector .* write apply",
    ),
    map_nothing=(lambda: ll.map(jnp.sin), TypeError, "map needs at least one vector"),
    map_reduces=(
        lambda: ll.map(jnp.sum, x),
        ValueError,
        r"sum must act coordinate by coordinate: .* became \(\)",
    ),
    map_centres=(
        lambda: ll.map(lambda a: a - a.mean(-1, keepdims=True), x),
        ValueError,
        "coordinate by coordinate",
    ),
    map_reverses=(lambda: ll.map(lambda a: a[::-1], x), ValueError, "coordinate by coordinate"),
    map_tuple=(lambda: ll.map(lambda a: (a, a), x), TypeError, "must return one array, got tuple"),
    map_complex=(lambda: ll.map(lambda a: a + 1j, x), TypeError, "real .*got complex128"),
    map_arity=(
        lambda: ll.map(lambda a, b: a, x),
        ValueError,
        r"function fails on arrays of shape \(4, 3\): .*'b'",
    ),
    apply_tuple=(
        lambda: ll.apply(lambda a: (a, a), p),
        TypeError,
        "must return one array, got tuple",
    ),
    apply_vector=(
        lambda: ll.apply(jnp.sum, x),
        TypeError,
        r"numbers \(Scalars or an array\), got Wide",
    ),
    relu=(lambda: ll.relu(3.0), TypeError, "relu acts on a Wide or on Scalars .* got float"),
    rsqrt=(lambda: ll.rsqrt(x), TypeError, "rsqrt acts on Scalars, got Wide"),
    clip=(lambda: ll.clip(x, -1.0), ValueError, "bound must be positive, got -1"),
    blind=(
        lambda: ll.softmax(p, np.eye(4, k=1, dtype=bool)),
        ValueError,
        r"mask .* in 1 rows, the first at \(3,\)",
    ),
    mask_shape=(
        lambda: ll.softmax(p, np.ones((4, 3), bool)),
        ValueError,
        r"mask.*\(4, 3\) and \(4, 4\)",
    ),
    mask_big=(
        lambda: ll.softmax(p, np.ones((2, 4, 4), bool)),
        ValueError,
        r"mask must .*\(4, 4\), got \(2, 4, 4\)",
    ),
    mask_floats=(
        lambda: ll.softmax(p, np.ones((4, 4))),
        TypeError,
        "mask must be .*booleans.* got float64",
    ),
    mask_name=(
        lambda: ll.softmax(p, "casual"),
        ValueError,
        "mask must be .*'causal'.* got 'casual'",
    ),
    causal_shape=(
        lambda: ll.softmax(p[:3], "causal"),
        ValueError,
        r"mask='causal' needs .* got \(3, 4\)",
    ),
    softmax_number=(lambda: ll.softmax(p[0, 0]), ValueError, "softmax needs a last axis"),
    infinite_sum=(
        lambda: (ll.Matrix(shape=math.inf) @ h).sum(),
        ValueError,
        "write normalised_sum",
    ),
    odd_rotary=(lambda: ll.rotary(narrow, 0.0), ValueError, "even dimension, got 5"),
    positions=(lambda: ll.rotary(x, np.ones(3)), ValueError, r"positions.*\(3,\) and \(4,\)"),
    positions_nan=(lambda: ll.rotary(x, math.nan), ValueError, "positions must be finite"),
    rotary_base=(lambda: ll.rotary(x, 0.0, base=0.0), ValueError, "base must be positive"),
)
def test_functions(call, error, match):
    """What the functions that write instructions refuse."""
    refuses(call, error, match)


@cases(
    none=(
        lambda: ll.attention(x, heads=0),
        ValueError,
        "heads must be a positive integer.*, got 0",
    ),
    negative=(
        lambda: ll.attention(x, heads=-2),
        ValueError,
        "heads must be a positive integer.*, got -2",
    ),
    fractional=(
        lambda: ll.attention(x, heads=1.5),
        ValueError,
        r"heads must be a positive integer.*, got 1\.5",
    ),
    nan=(
        lambda: ll.attention(x, heads=math.nan),
        ValueError,
        "heads must be a positive integer.*, got nan",
    ),
    text=(
        lambda: ll.attention(x, heads="2"),
        TypeError,
        "heads must be a positive integer.*, got '2'",
    ),
    head_dim=(
        lambda: ll.attention(x, 2, head_dim=0),
        ValueError,
        "head_dim must be a positive integer, got 0",
    ),
    scaling=(
        lambda: ll.attention(x, 2, scaling="n"),
        ValueError,
        "scaling must be one of .* got 'n'",
    ),
    mask=(
        lambda: ll.attention(x, 2, mask=np.zeros((4, 4), bool)),
        ValueError,
        "mask leaves no token to see in 4 rows",
    ),
    q_std=(lambda: ll.attention(x, 2, q_std=-1.0), ValueError, "q_std must be ≥ 0, got -1"),
    o_std=(lambda: ll.attention(x, 2, o_std=math.nan), ValueError, "o_std must be finite"),
    tokens=(lambda: ll.attention(h, 2), ValueError, "x must have a last batch axis of tokens"),
    array=(
        lambda: ll.attention(np.ones((4, 3)), 2),
        TypeError,
        r"x must be a Wide .* got ndarray; .* data\(X\)",
    ),
)
def test_attention(call, error, match):
    """What attention refuses."""
    refuses(call, error, match)


ESCAPES = {
    "add": lambda: turned + x,
    "scale": lambda: 2.0 * turned,
    "negative": lambda: -turned,
    "map": lambda: ll.relu(turned),
    "product": lambda: turned * x,
    "matmul": lambda: M @ turned,
    "mix": lambda: np.ones(4) @ turned,
    "average": lambda: ll.average(turned),
    "stack": lambda: ll.stack([turned, turned]),
    "twice": lambda: ll.rotary(turned, 0.0),
    "attention": lambda: ll.attention(turned, 2),
    "normalised sum": lambda: ll.normalised_sum(turned, 0),
    "index": lambda: turned[0] + x,
    "sum": lambda: turned.sum() + x,
    "mean": lambda: turned.mean(0) + x,
    "reshape": lambda: turned.reshape(2, 2) + h,
    "transpose": lambda: turned.transpose() + x,
    "output": lambda: draw(turned),
    "indexed output": lambda: draw(turned[0]),
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_rotary_enters_only_a_dot(escape):
    """A rotated vector reaches nothing but a dot product, directly or through batch operations."""
    refuses(escape, TypeError, "may only enter a dot")


def test_rotary_at_an_odd_width():
    """Rotary in the space n is an error at odd widths only."""
    scores = ll.dot(turned, turned)
    refuses(
        lambda: draw(scores, width=5), ValueError, "width=5: rotary turns pairs .* odd dimension 5"
    )
    assert draw(scores, width=6).shape == (2, 4, 4)
