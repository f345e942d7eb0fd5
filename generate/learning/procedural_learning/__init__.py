"""Families of procedural learning: a hidden skill is practised on new instances, then tested."""
