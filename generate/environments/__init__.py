"""Environments: what can happen, what is seen of it, and what an action does."""
