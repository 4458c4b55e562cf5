"""The experiments of the paper, and some beyond it: what they compute, what they claim, how they are shown."""
