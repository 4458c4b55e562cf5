"""Layers: short functions that write nodes of a program."""
