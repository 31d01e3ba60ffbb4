"""Read: text -> plain data in which every value has a place. Strict, bounded, located errors only."""

from policy_eval.load.json_text import load_json
from policy_eval.load.source import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Node, Source, read_text
from policy_eval.load.yaml_text import load_yaml, load_yaml_all

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_VALUES",
    "Node",
    "Source",
    "load_json",
    "load_yaml",
    "load_yaml_all",
    "read_text",
]
