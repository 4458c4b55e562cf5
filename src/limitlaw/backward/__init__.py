"""Gradients and tangent kernels as programs: reverse mode on what a user wrote."""
