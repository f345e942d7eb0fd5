"""From requests to tokens: chat templates, the boundary between prompt and option, and the context's limit.

One place for all engines that tokenise here, so that they ask a model the same thing.
"""
