"""Shell scripts, followed but never run."""
