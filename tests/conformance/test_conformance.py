"""The specification's own cases, section by section, against the counts that must not fall (``floor.json``).

The data is not part of the project: it lies in the folder that `CEL_CONFORMANCE` names, or in ``shared/cel`` beside
the checkout; without it, only ``test_own_cases`` remains. ``python tests/conformance/test_conformance.py``
prints the table and every case that did not pass; with ``--write`` it also writes the floor.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest
import suite

FLOOR = Path(__file__).parent / "floor.json"
CODED = "by code too"
# Without protobuf, a core section must pass as a whole.
CORE = [
    *("basic", "comparisons", "conversions", "fields", "fp_math", "integer_math", "lists", "logic", "macros"),
    *("namespace", "parse", "plumbing", "string", "timestamps"),
]


def results() -> tuple[dict[str, Counter[str]], list[str]]:
    """Per section, how many cases had which outcome (for a skipped one, its reason); and what went wrong where."""
    file = suite.data_file()
    if file is None:
        pytest.skip("the specification's cases are not here (CEL_CONFORMANCE)")
    table: dict[str, Counter[str]] = {}
    faults = []
    for section, name, data in suite.read(file):
        count = table.setdefault(section, Counter())
        try:
            case = suite.prepare(section, name, data)
        except suite.NotApplicable as reason:
            count[str(reason)] += 1
            continue
        result = suite.run(case)
        count[result.outcome] += 1
        count[CODED] += result.coded
        if result.outcome != suite.PASSED:
            faults.append(f"{result.outcome}: {section}/{name}: {case.expression}: {result.told}")
    return table, faults


def render(table: dict[str, Counter[str]]) -> str:
    """The table as text: one line a section, and the sum."""
    columns = [suite.PASSED, CODED, suite.SILENT, suite.FAILED, *suite.REASONS]
    rows = [*table.items(), ("sum", sum(table.values(), Counter()))]
    lines = [f"{'section':16}" + "".join(f"{column:>{len(column) + 3}}" for column in columns)]
    for name, count in rows:
        cells = (f"{count[column] or '':>{len(column) + 3}}" for column in columns)
        lines.append(f"{name:16}" + "".join(cells))
    return "\n".join(lines)


@pytest.fixture(scope="module")
def outcome() -> tuple[dict[str, Counter[str]], list[str]]:
    found = results()
    print("\n" + render(found[0]))
    return found


def test_no_section_falls(outcome: tuple[dict[str, Counter[str]], list[str]]) -> None:
    table, faults = outcome
    floor = json.loads(FLOOR.read_text())
    assert floor.keys() == table.keys()
    below = {name: count[suite.PASSED] for name, count in table.items() if count[suite.PASSED] < floor[name]}
    assert not below, "\n".join(faults)


def test_core_is_whole(outcome: tuple[dict[str, Counter[str]], list[str]]) -> None:
    table, faults = outcome
    assert not [name for name in CORE if table[name][suite.FAILED] or table[name][suite.SILENT]], faults


def test_nothing_is_wrong_silently(outcome: tuple[dict[str, Counter[str]], list[str]]) -> None:
    table, faults = outcome
    assert not sum(count[suite.SILENT] for count in table.values()), faults


def test_nearly_all_that_applies_passes(outcome: tuple[dict[str, Counter[str]], list[str]]) -> None:
    total = sum(outcome[0].values(), Counter())
    run = total[suite.PASSED] + total[suite.FAILED] + total[suite.SILENT]
    assert total[suite.PASSED] >= 0.98 * run
    assert run >= 1_600


def test_generated_code_decides_many(outcome: tuple[dict[str, Counter[str]], list[str]]) -> None:
    """That it never contradicts the walker would say little if it always left the matter to it."""
    assert sum(count[CODED] for count in outcome[0].values()) >= 700


OWN = json.loads((Path(__file__).parent / "own.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("section", "data"), [(name, data) for name, group in OWN.items() for data in group])
def test_own_cases(section: str, data: dict[str, object]) -> None:
    case = suite.prepare(section, str(data["expr"]), data)
    result = suite.run(case)
    assert result.outcome == suite.PASSED, result.told
    if "message" in data:
        with pytest.raises(suite.cel.Error) as caught:
            suite.cel.compile(case.expression).evaluate(case.bindings)
        assert caught.value.message == data["message"]


def main() -> None:
    """Print the table and the faults; write the floor when asked to."""
    table, faults = results()
    print("\n".join([render(table), *faults]))
    if "--write" in sys.argv:
        floor = {name: count[suite.PASSED] for name, count in table.items()}
        FLOOR.write_text(json.dumps(floor, indent=2) + "\n")


if __name__ == "__main__":
    main()
