"""Generate acts: it produces raw outputs and steps; it never scores."""
