"""An engine in miniature: a small deterministic model, run for real through the features that rules speak of.

It returns what the engine would return, right or wrong, and beside it the truth: the distribution from which each
token was really drawn. ``behaviour`` (what an engine does), ``model`` (logits), ``cases`` (the requests),
``engine`` (the run), ``speculation`` and ``diffusion`` (ways to generate), ``returned`` (what comes back).
"""
