"""Recipes: what an initialisation was meant to be, by the role of each matrix."""
