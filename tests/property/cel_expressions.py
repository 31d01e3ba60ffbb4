"""Random expressions over plain data, with the libraries, for the comparison with another implementation of CEL."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 7, 255, 2**53 + 1, 2**63 - 1, -(2**63)]),
    st.sampled_from([0.0, -0.0, 1.0, -1.5, 2.5, 1e6, 1e300, 2.0**53, 2.0**63, float("nan"), float("inf")]),
    st.sampled_from(["", "a", "b", "ab", "aab", "é", "añ😀", "1", "1.5", "true", "1h", "%s", "%d|%x"]),
    st.sampled_from([b"", b"a", b"\xff"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3),
    ),
    max_leaves=5,
)
NAMES = ("x", "y", "l", "m", "s", "i")
bindings: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "x": values,
        "y": values,
        "l": st.lists(scalars, max_size=4),
        "m": st.dictionaries(st.sampled_from(["a", "b", "ab"]), values, max_size=3),
        "s": st.sampled_from(["", "a", "ab", "aab", "añ😀", "a,b,c", "  a "]),
        "i": st.integers(-3, 5),
    }
)
_LITERALS = [
    "true",
    "false",
    "null",
    "0",
    "1",
    "-1",
    "2",
    "3u",
    "0u",
    "18446744073709551615u",
    "9223372036854775807",
    "-9223372036854775808",
    "1.0",
    "-0.5",
    "2.5",
    "1e300",
    "'a'",
    "'ab'",
    "''",
    "b'a'",
    "b''",
    "[]",
    "{}",
    "[1,2]",
    "['a','b']",
    "{'a':1}",
    "{1:'i',true:'b'}",
    "[1,1u,1.0,true]",
    "[0.0/0.0]",
    "int",
    "string",
    "type",
    "timestamp(0)",
    "duration('90s')",
    "timestamp('2024-02-29T23:59:59.5Z')",
    "duration('-1h1ms')",
]
atoms = st.one_of(st.sampled_from(NAMES), st.sampled_from(_LITERALS))

_FORMS = """({0} + {1})|({0} - {1})|({0} * {1})|({0} / {1})|({0} % {1})|-({0})|!({0})
({0} == {1})|({0} != {1})|({0} < {1})|({0} <= {1})|({0} > {1})|({0} >= {1})|({0} in {1})
({0} && {1})|({0} || {1})|({0} ? {1} : {2})|[{0}, {1}]|{{'a': {0}, 'b': {1}}}|{{{0}: {1}}}
{0}[{1}]|{0}.a|has({0}.a)|{0}[0]|{0}['a']
[{0}, {1}].all(v, v == {2})|{0}.exists(v, v == {1})|{0}.exists_one(v, v == {1})|{0}.filter(v, v != {1})|{0}.map(v, v)
{0}.all(v, v)|{0}.map(v, [v, {1}])|{0}.all(v, v > {1} || {2})
size({0})|{0}.size()|type({0})|dyn({0})|int({0})|uint({0})|double({0})|string({0})|bytes({0})|bool({0})
{0}.contains({1})|{0}.startsWith({1})|{0}.endsWith({1})|{0}.matches('a+b?')|s.matches({0})
string(timestamp({0}))|string(duration({0}))|{0}.getHours()|{0}.getSeconds()|{0}.getMonth()|{0}.getDayOfYear()
{0}.getFullYear('-01:00')|{0}.getMilliseconds()|{0}.getMinutes('Asia/Kathmandu')
s.charAt({0})|s.indexOf({0})|s.indexOf('a', {0})|s.lastIndexOf({0})|s.substring({0})|s.substring({0}, {1})
s.replace({0}, 'x')|s.replace('a', 'bb', {0})|s.split({0})|s.split(',', {0})|s.trim()|{0}.upperAscii()|{0}.lowerAscii()
{0}.join('-')|'%s'.format([{0}])|'%d'.format([{0}])|'%x'.format([{0}])|'%.2f'.format([{0}])|'%b'.format([{0}])
'%e'.format([{0}])|'%o'.format([{0}])
math.greatest({0}, {1})|math.least({0}, {1})|math.abs({0})|math.sign({0})|math.ceil({0})|math.round({0})|math.trunc({0})
math.isNaN({0})|math.isInf({0})|math.bitAnd({0}, {1})|math.bitOr({0}, {1})|math.bitNot({0})|math.bitShiftLeft({0}, {1})
math.bitShiftRight({0}, {1})|math.floor({0})
optional.of({0}).value()|optional.ofNonZeroValue({0}).hasValue()|m.?a.orValue({0})|l[?{0}].hasValue()|{0}.?a.hasValue()
optional.of({0}).optMap(v, [v, {1}]).value()|[?m.?a, {0}]|{{?'a': m.?b, 'c': {0}}}
cel.bind(v, {0}, [v, v])""".replace("\n", "|").split("|")


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda form, a, b, c: form.format(a, b, c), st.sampled_from(_FORMS), inner, inner, inner)


expressions = st.recursive(atoms, _grow, max_leaves=6)
