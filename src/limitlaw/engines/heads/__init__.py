"""Sums over heads that are i.i.d. given the incoming kernel:
which they are, and the laws of their outputs.
"""
