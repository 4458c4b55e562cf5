"""Engines: each means programs by a table of one rule per instruction.

`dense` draws every matrix, `frames` gives the exact law at width n without them, `limit` that as n
→ ∞, `heads` those of sums over i.i.d. heads.
"""
