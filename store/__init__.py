"""The store: raw tables, manifests, errors, exports and the command line."""
