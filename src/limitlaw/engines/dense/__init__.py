"""The dense engine is the definition of a program: every matrix is drawn and every vector has all
its coordinates.

It shares nothing with the other engines, which are tested against it.
"""
