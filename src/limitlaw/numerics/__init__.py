"""Numerical methods that know nothing of programs: random numbers, linear algebra, quadrature.

Some work on arrays of NumPy, and of JAX where something is traced: `xp` is then the module of the
arrays at hand.
"""

import numpy as np
from jaxtyping import Array, Float, Inexact, Int

Reals = Float[Array, "..."]  # a JAX array
HostReals = Float[np.ndarray, "..."]
Floats = Float[Array | np.ndarray, "..."]
Numbers = Inexact[Array | np.ndarray, "..."]  # real or complex
Scalar = float | Floats
Discrete = tuple[Floats, Floats]  # a discrete law, or a rule: nodes and weights
LoopIndex = Int[Array, ""] | int
