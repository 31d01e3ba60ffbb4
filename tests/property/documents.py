"""Random normalized documents, valid and nearly valid, made from the config schema itself."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from policy_eval.schema import load_schema

_TEXT = st.text(max_size=8)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=4,
)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Valid values of a part of the schema."""
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    names = schema.get("type", ["null"])
    return st.one_of([_kind(name, schema) for name in ([names] if isinstance(names, str) else names)])


def _kind(name: str, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if name == "object":
        required = schema.get("required", ())
        known = {key: values(part) for key, part in schema.get("properties", {}).items() if key != "$schema"}
        fixed = {key: value for key, value in known.items() if key in required}
        maybe = {key: value for key, value in known.items() if key not in required}
        found: st.SearchStrategy[Any] = st.fixed_dictionaries(fixed, optional=maybe)
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            found = st.dictionaries(_TEXT, values(extra), max_size=2)
        return found
    if name == "array":
        return st.lists(values(schema["items"]) if "items" in schema else _JSON, max_size=3)
    if name == "string":
        pattern = schema.get("pattern", "")
        if pattern.startswith("^[0-9]"):
            return st.sampled_from(
                ["0.28.0", "0.31.0", "0.32.0", "0.33.0", "0.32.1", "0.27.1", "1!2.0", "0.32.x"]
            )
        if pattern.startswith("^(/"):
            return st.sampled_from(
                ["/use_v2_model_runner", "/model_config", "/env/A", "/engine/version", "/env/a~1b"]
            )
        return _TEXT
    return {
        "integer": st.integers(schema.get("minimum", -3), 5),
        "number": st.integers(-3, 5) | st.floats(-2, 2),
        "boolean": st.booleans(),
        "null": st.none(),
    }[name]


def valid_documents() -> st.SearchStrategy[dict[str, Any]]:
    """Documents that the schema allows; often ones that ask for replay."""
    return values(load_schema("config")).flatmap(
        lambda document: st.sampled_from([document, _asking(document), _asking(document)])
    )


def _asking(document: dict[str, Any]) -> dict[str, Any]:
    model = document.get("model_config") or {}
    return {
        **document,
        "engine": {"name": "vllm", **{k: v for k, v in document["engine"].items() if k == "version"}},
        "model_config": {**model, "return_sampling_mask": True},
    }


@st.composite
def any_documents(draw: st.DrawFn) -> Any:
    """Valid documents with one part replaced, added or removed, and arbitrary data."""
    document = draw(valid_documents())
    if draw(st.integers(0, 9)) == 0:
        return draw(_JSON)
    document = {**document}
    at: Any = document
    for _ in range(draw(st.integers(0, 2))):
        inner = [key for key, value in at.items() if isinstance(value, dict)]
        if not inner:
            break
        key = draw(st.sampled_from(sorted(inner)))
        at[key] = {**at[key]}
        at = at[key]
    keys = [*sorted(at), draw(_TEXT)]
    key = draw(st.sampled_from(keys))
    if draw(st.booleans()) and key in at:
        del at[key]
    else:
        at[key] = draw(_JSON)
    return document
