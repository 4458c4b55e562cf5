"""The limit n → ∞: moments of wide vectors given the numbers of a program, scores, loops, and many
draws of them.
"""
