"""Reports for people and for machines: one module a format, each with ``render(report) -> str``."""
