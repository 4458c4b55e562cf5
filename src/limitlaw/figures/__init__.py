"""Pictures in general: what a picture is, its styles and scales, in print, on a page, and of a
law.

Nothing here knows of the paper or of an experiment, and no engine is imported: pictures see arrays
and laws.
"""
