"""Shared by the pictures of several experiments: claims about tables, panels, and the look of the
paper's curves.

What one experiment alone needs is in its folder's `shown.py`. No number depends on anything here:
stored chunks stay valid when it changes.
"""
