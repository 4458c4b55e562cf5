"""The language in which a network is written: values, instructions, operators, broadcasting, and
printing.
A program is only written here: no arithmetic is done and no random number is drawn.
"""
