"""Sums over heads that are i.i.d. given the incoming kernel: which sums these are, and the laws of
their outputs.
"""
