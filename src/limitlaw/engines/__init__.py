"""Engines: each gives the programs of the core language one meaning, by a table of one rule for
each instruction.

`dense` draws every matrix, `frames` gives the exact law at finite width without wide matrices,
`limit` the law as n → ∞, `heads` the laws of sums over i.i.d. heads.
"""
