"""Absolute rules: what is wrong with a module whatever its recipe, read off a `Reading`.

Each rule is a generator of findings. Bounds are choices, wide enough for what published models
start with.
"""
