"""policy-eval: rules as data for LLM inference configurations."""
