"""Random expressions over random documents, for the property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from policy_eval.cel import BOOL, DYN, INT, MISSING, STRING, Field, ListType, MapType, Nullable, Record

INNER = Record(
    "config.inner",
    {
        "flag": Field(BOOL, False),
        "mode": Field(STRING, "raw"),
        "items": Field(Nullable(ListType(DYN)), None),
        "count": Field(INT),
        "any": Field(DYN),
    },
)
CONFIG = Record(
    "config",
    {
        "inner": Field(Nullable(INNER), None),
        "must": Field(Nullable(INNER)),
        "flag": Field(BOOL, True),
        "env": Field(MapType(STRING, DYN), {}),
        "host": Field(Record("config.host", {"n": Field(INT, 3), "names": Field(ListType(STRING), [])}), {}),
        "numbers": Field(ListType(DYN), [1, 2, 3]),
        "value": Field(DYN),
    },
    also=["schema"],
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 7, 2**63 - 1, -(2**63), 2**53 + 1]),
    st.sampled_from([0.0, 1.0, -1.5, 2.5, float("nan"), float("inf"), 2.0**53]),
    st.sampled_from(["", "a", "raw", "flag", "aa", "é"]),
)
data = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["a", "flag", "x y", "mode"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def _record(record: Record) -> st.SearchStrategy[dict[str, Any]]:
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in record.fields.items():
        kind = field.type.of if isinstance(field.type, Nullable) else field.type
        right = _record(kind) if isinstance(kind, Record) else _of(str(kind))
        fields[name] = st.one_of(right, right, st.none()) if isinstance(field.type, Nullable) else right
    wrong = st.dictionaries(st.sampled_from(["flagg", "schema"]), st.just(1), max_size=1)
    full = st.fixed_dictionaries({}, optional=fields)
    return st.one_of(full, full, full, st.tuples(full, wrong).map(lambda two: {**two[0], **two[1]}))


def _of(kind: str) -> st.SearchStrategy[Any]:
    simple: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "string": st.sampled_from(["raw", "processed", ""]),
        "int": st.integers(-3, 3),
        "list(string)": st.lists(st.sampled_from(["a", "b"]), max_size=3),
        "list(dyn)": st.lists(scalars, max_size=4),
        "map(string, dyn)": st.dictionaries(st.sampled_from(["a", "flag", "x y"]), scalars, max_size=3),
        "dyn": data,
    }
    return st.one_of(simple[kind], simple[kind], simple[kind], scalars)


documents = _record(CONFIG)


def complete(value: Any, record: Record, unknown: Any, pointer: str = "") -> dict[str, Any]:
    """The document with defaults and unknowns filled in, as the walker takes it."""
    filled: dict[str, Any] = {}
    for name, field in record.fields.items():
        item = value.get(name, field.default)
        kind = field.type.of if isinstance(field.type, Nullable) else field.type
        if item is MISSING:
            item = unknown(frozenset([f"{pointer}/{name}"]))
        elif isinstance(kind, Record) and type(item) is dict:
            item = complete(item, kind, unknown, f"{pointer}/{name}")
        filled[name] = item
    return filled


paths = st.sampled_from(
    [
        "config.inner",
        "config.inner.flag",
        "config.inner.mode",
        "config.inner.items",
        "config.inner.count",
        "config.inner.any",
        "config.inner.any.a",
        "config.must",
        "config.must.flag",
        "config.must.mode",
        "config.flag",
        "config.env",
        "config.env.a",
        "config.env['x y']",
        "config.host",
        "config.host.n",
        "config.host.names",
        "config.numbers",
        "config.numbers[0]",
        "config.value",
        "config.value.flag",
        "variables.first",
        "variables.second",
        "variables.path",
        "variables.path.mode",
    ]
)
atoms = st.one_of(
    paths,
    paths,
    paths,
    st.sampled_from(
        [
            "true",
            "false",
            "null",
            "0",
            "1",
            "2.0",
            "1.0",
            "-1",
            "'raw'",
            "'flag'",
            "'a'",
            "''",
            "[1, 2, 'a']",
            "[]",
        ]
    ),
    st.sampled_from(["{'a': 1}", "9223372036854775807", "1u", "b'a'", "x", "y"]),
    st.sampled_from(
        [
            "has(config.inner.flag)",
            "has(config.inner.count)",
            "has(config.env.a)",
            "has(config.must.mode)",
            "has(config.value.flag)",
            "has(variables.path.flag)",
            "config.inner == null",
            "config.must != null",
            "config.inner.mode in ['raw', 'processed']",
        ]
    ),
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def form(*templates: str) -> st.SearchStrategy[str]:
        return st.builds(
            lambda template, a, b, c: template.format(a, b, c),
            st.sampled_from(templates),
            inner,
            inner,
            inner,
        )

    return st.one_of(
        form("({0} && {1})", "({0} || {1})", "({0} && {1} && {2})", "({0} || {1} || {2})", "!{0}", "!({0})"),
        form("({0} == {1})", "({0} != {1})", "({0} < {1})", "({0} >= {1})", "({0} in {1})"),
        form("({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})", "({0} % {1})", "-({0})"),
        form("({0} ? {1} : {2})", "({0})[{1}]", "({0}).a", "has(({0}).flag)", "[{0}, {1}]"),
        form("size({0})", "string({0})", "({0}).startsWith('r')", "({0}).contains({1})", "({0}).size()"),
        form(
            "({0}).all(x, {1})", "({0}).exists(x, {1})", "({0}).exists_one(x, {1})", "({0}).all(y, y == {1})"
        ),
        form("({0}).map(x, {1})", "({0}).filter(y, {1})", "({0}).map(x, {1}, {2})", "({0}).all(x, y, {1})"),
        form("cel.bind(x, {0}, {1})", "cel.bind(y, {0}, ({1} || {2}))", "({0}).exists(x, x in {1})"),
        form(
            "({0}).map(x, {1}).all(y, {2})",
            "({0}).exists(x, {1} || x == {2})",
            "({0}).all(x, {1} && x != {2})",
        ),
    )


expressions = st.recursive(atoms, _grow, max_leaves=6)
