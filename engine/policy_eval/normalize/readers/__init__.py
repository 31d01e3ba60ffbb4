"""Readers of what people deploy, one file each; `shapes` has them in the order in which an input is tried."""
