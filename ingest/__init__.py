"""Ingest copies pinned upstream bytes into raw tables; it never scores."""
