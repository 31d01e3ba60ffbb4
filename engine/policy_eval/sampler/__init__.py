"""The reference sampler: what the engines do with logits, as executable torch, and the judge of their masks.

Nothing is imported here, so that asking for one part does not pay for torch where it is not needed:
``semantics`` (the table of differences), ``params``, ``pipeline``, ``draw``, ``masks``, ``invariants``,
``judge``, ``bounds``, ``recording``.
"""
