"""The experiments of the paper and some beyond it: a folder each, which nothing else needs to know
of.

    fig1/__init__.py    what it computes: chunks, and tables made of their arrays;
                        declares an `Experiment`, which `catalogue` finds
    fig1/shown.py       what it claims of these tables, how it is pictured, and its captions

`computed` and `shown` hold what several experiments share; `catalogue` finds the folders,
`reproduce` runs them and `report` shows what they found. No experiment imports another one.
"""
