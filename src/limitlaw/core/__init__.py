"""What engines read: instructions on axes with identity, `Analysis`, rewrites and `check`, apart
from how a user writes a program and what an engine makes of it.
"""
