"""What engines read: about a dozen instructions on axes with identity, one `Analysis`, rewrites of
programs, and `check`.

Nothing here depends on how a user writes a program (`language`), nor on what an engine makes of
it.
"""
