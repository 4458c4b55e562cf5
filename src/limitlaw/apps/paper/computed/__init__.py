"""What computations of several experiments share: networks, laws in chunks, divergences; nothing
here knows how anything is shown.
"""
