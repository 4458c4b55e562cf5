"""What engines read: a dozen instructions on axes with identity,
one Analysis, rewrites, and `check`.

Nothing here knows how a user wrote a program (`language`), nor what an engine makes of it.
"""
