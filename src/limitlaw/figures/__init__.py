"""Pictures of laws, of statistics along depth and of audits: curves and styles, drawn by
matplotlib.

No engine is imported: pictures see arrays and laws.
"""
