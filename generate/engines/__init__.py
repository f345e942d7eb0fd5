"""Engines: models that answer requests. Nothing here knows a benchmark."""
