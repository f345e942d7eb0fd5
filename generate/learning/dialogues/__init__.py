"""Dialogues: in which turns the instances of a family are asked."""
