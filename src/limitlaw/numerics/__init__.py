"""Numerical methods: random numbers, linear algebra, quadrature; nothing of programs.

Some work on arrays of NumPy, and of JAX where something is traced: `xp` is then the module of the
arrays at hand.
"""

import numpy as np
from jaxtyping import Array, Float, Inexact, Int

Reals = Float[Array, "..."]  # of JAX
HostReals = Float[np.ndarray, "..."]
Floats = Float[Array | np.ndarray, "..."]
Numbers = Inexact[Array | np.ndarray, "..."]  # real or complex
Scalar = float | Floats
Discrete = tuple[Floats, Floats]  # a discrete law, or a rule: nodes and weights
LoopIndex = Int[Array, ""] | int
