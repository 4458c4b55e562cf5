"""What pictures of several experiments share: claims about tables, panels, the look of curves. No
number depends on it, so stored chunks stay valid when it changes.
"""
