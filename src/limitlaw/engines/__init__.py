"""Engines: each gives a program one meaning."""
