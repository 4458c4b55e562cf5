"""The dense engine is the definition of a program, against which the others are tested: every
matrix is drawn, every vector has all its coordinates.
"""
