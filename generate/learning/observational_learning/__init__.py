"""Families of observational learning: a hidden process is demonstrated, then new inputs are put to it."""
