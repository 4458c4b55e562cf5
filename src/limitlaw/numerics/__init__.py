"""Samplers, factors, quadrature and estimates: numbers only, nothing of programs."""
