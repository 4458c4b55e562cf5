"""The adversary: random cases, an independent slow reference in plain NumPy,
and the comparison with limitlaw.

`cases`, `functions`, `integrals`, `attention_draws`, `laws`, `figures` and `reference` know
nothing of limitlaw; `library` writes a case with it, `compare` and `run` judge. A package, since
benchmarks/adversary.py has its name, too.
"""
