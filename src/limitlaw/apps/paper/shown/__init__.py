"""What several experiments are shown with: claims about tables, panels, and the look of the
paper's curves.

What one experiment alone needs is in its folder's `shown.py`. No number depends on anything here:
stored chunks stay good when it changes.
"""
