"""The definition of a program: every matrix is drawn and every vector has all its coordinates.

Independent of the other engines, which are tested against it.
"""
