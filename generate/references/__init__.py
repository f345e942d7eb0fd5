"""References that predict what people answer, and how they are fitted to other people."""
