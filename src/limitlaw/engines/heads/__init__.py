"""Sums over heads that are i.i.d. given the kernel: which they are, and their outputs' laws."""
