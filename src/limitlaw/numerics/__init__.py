"""Numerical methods that know nothing of programs; `xp` is NumPy, or jax.numpy where something is
traced.
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
