"""What cannot be converted, and the words in which it is said."""


class ConversionError(ValueError):
    """A module that has no program: the message names the operation,
    the module, the line and what could be done.
    """


class ReplayError(ConversionError):
    """A program that does not compute what its module computes:
    the message names the first wrong value.
    """
