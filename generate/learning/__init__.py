"""Learning: families of tasks in which something new has to be learned, and the dialogues that ask them."""
