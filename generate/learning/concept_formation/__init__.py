"""Concept formation: a hidden rule is found from examples that are asked for one by one."""
