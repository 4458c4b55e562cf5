"""Finite width, and spaces of fixed dimension: exact draws without matrices.

Given what has been drawn so far, a vector is the sum of a drawn part, in the space of its
component, and of a fresh Gaussian part, coefficients on roots not yet drawn.
"""
