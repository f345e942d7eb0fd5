"""Language learning: word forms of invented languages, whose rules are induced and applied to new roots."""
