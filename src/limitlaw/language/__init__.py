"""What a network is: nodes, shapes, operators, checking, printing.
No arithmetic and no randomness.
"""
