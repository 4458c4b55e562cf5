"""Programs that are run rather than imported: the command line, the explorer, the paper's figures,
studies of depth, and the pages that show them.

Nothing of the library imports from here.
"""
