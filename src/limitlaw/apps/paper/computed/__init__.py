"""Shared by the computations of several experiments: the paper's networks, their laws in chunks,
and estimates of divergences.

What one experiment alone needs is in its folder. Nothing here knows how anything is shown.
"""
