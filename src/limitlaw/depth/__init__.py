"""The law of every layer: statistics along depth, the scales that hold them, and maps of both.

It reads programs through the engines' statistics, and computes nothing about a network itself.
"""

from limitlaw.depth.coordinates import CoordinateCheck, coordinate_check
from limitlaw.depth.gradients import gradients
from limitlaw.depth.loss import InitialLoss, TiedHead, initial_loss, network_loss
from limitlaw.depth.solve import Solution, solve
from limitlaw.depth.statistics import STATISTICS, Column, Statistic
from limitlaw.depth.table import Trace
from limitlaw.depth.trace import trace

__all__ = [
    "STATISTICS",
    "Column",
    "CoordinateCheck",
    "InitialLoss",
    "Solution",
    "Statistic",
    "TiedHead",
    "Trace",
    "coordinate_check",
    "gradients",
    "initial_loss",
    "network_loss",
    "solve",
    "trace",
]
