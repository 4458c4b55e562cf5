"""The limit n → ∞: moments of wide vectors given a program's numbers; scores, loops, draws."""
