"""The law of every layer: statistics along depth, the scales that hold them, and maps of both.

It reads programs through the engines' statistics, and computes nothing about a network itself.
"""

from limitlaw.depth.coordinates import CoordinateCheck, coordinate_check
from limitlaw.depth.gradients import gradients
from limitlaw.depth.solve import Solution, solve
from limitlaw.depth.statistics import STATISTICS, Column, Statistic
from limitlaw.depth.table import Trace
from limitlaw.depth.trace import trace

__all__ = [
    "STATISTICS",
    "Column",
    "CoordinateCheck",
    "Solution",
    "Statistic",
    "Trace",
    "coordinate_check",
    "gradients",
    "solve",
    "trace",
]
