"""Families of associative learning: logs of trials from which causes are told, predicted and counted."""
