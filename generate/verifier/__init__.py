"""The Procedural Pile verifier: what a program of others says about an answer, or that it says nothing."""
