"""The law of every layer: statistics along depth, the scales that hold them, and maps of both.

Reads programs through the engines' statistics; computes nothing about a network itself.
"""

from limitlaw.depth.solve import Solution, solve
from limitlaw.depth.statistics import STATISTICS, Statistic
from limitlaw.depth.table import Column, Trace
from limitlaw.depth.trace import trace

__all__ = ["STATISTICS", "Column", "Solution", "Statistic", "Trace", "solve", "trace"]
