"""Scripts made at random come to the same commands as when bash runs them.

The scripts hold assignments, conditions, loops, functions and calls of one function that prints its arguments;
nothing else can run, as the search path is empty.
"""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from policy_eval.errors import PolicyEvalError
from policy_eval.normalize.shell.script import read_script
from policy_eval.normalize.text import file_text

BASH = "/bin/bash"
START = "N=7\nA=x\nB=\nARR=(a 'b c')\n"
SHOW = 'vllm() { printf "<"; for a in "$@"; do printf "%s|" "$a"; done; printf ">\\n"; }\nunset U\n'
WORDS = (
    *(
        "--flag",
        "x",
        '"a b"',
        "'c  d'",
        "$A",
        '"$A"',
        "${B}",
        '"${B:-def ault}"',
        "${U:-u v}",
        '"pre${A}post"',
    ),
    *("$'t\\tb'", "a\\ b", '"q\\"q \\$A \\n"', '"${ARR[@]}"', "${A:+set}", '"${ARR[*]}"', "${ARR[0]}", "é"),
    *("$((2 * 3 - 7 / 2))", "$(( (1 + 2) * -3 % 4 ))", "$((N / 3))", "$((-N % 4))"),
)
TESTS = (
    *('[ -n "$A" ]', '[ -z "$B" ]', "[[ $A == x* ]]", '[[ "$A" = "x y" && -n $B ]]', '[ "$A" = "$B" ]'),
    *(
        'test -n "$A"',
        "[[ ! -n $A || $B == z ]]",
        '[ "$A" != x -a -n "$B" ]',
        '! [ -n "$A" ]',
        "true",
        "false",
    ),
    "[[ ( -n $A ) && ! ( -z $B ) ]]",
)


class Maker:
    """Makes scripts from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def word(self) -> str:
        return "".join(self.random.choice(WORDS) for _ in range(self.random.choice((1, 1, 1, 2))))

    def setting(self) -> str:
        name = self.random.choice("AB")
        return self.random.choice(
            (
                f"{name}={self.word()}",
                f'{name}="one  two"',
                f"ARR=({self.word()} {self.word()})",
                f"ARR+=({self.word()})",
                f"export {name}={self.word()}",
                f"{name}+=z",
                f"ARR[1]={self.word()}",
                f"unset {name}",
            )
        )

    def statement(self, depth: int = 0) -> str:
        test = self.random.choice(TESTS)
        kind = self.random.randint(0, 10 if depth < 3 else 4)
        if kind <= 3:
            return self.setting()
        if kind == 4:
            return "vllm serve " + " ".join(self.word() for _ in range(self.random.randint(0, 4)))
        if kind == 5:
            parts = [self.block(depth + 1) for _ in range(3)]
            other = self.random.choice(TESTS)
            return f"if {test}; then\n{parts[0]}\nelif {other}\nthen\n{parts[1]}\nelse\n{parts[2]}\nfi"
        if kind == 6:
            return f"{test} && {self.setting()}"
        if kind == 7:
            return f"{test} || {{ {self.setting()}; }}"
        if kind == 8:
            return f'for v in {self.word()} "${{ARR[@]}}"; do\nA=$v # comment\n{self.block(depth + 1)}\ndone'
        if kind == 9:
            first, second, third = (self.statement(depth + 1) for _ in range(3))
            return f'case "$A" in\n x*) {first} ;;\n "one  two"|z)\n{second}\n ;;\n *) {third};;\nesac'
        if depth:
            return f"( {self.setting()}\n vllm serve sub \\\n  $A )"
        return f'f() {{\n{self.setting()}\nvllm serve "$@" "$1"\n}}\nf {self.word()} {self.word()}'

    def block(self, depth: int) -> str:
        return "\n".join(self.statement(depth) for _ in range(self.random.randint(1, 3)))

    def script(self) -> str:
        body = "\n".join(self.statement() for _ in range(self.random.randint(2, 5)))
        return f'{START}{body}\nvllm serve end "$A" "$B" "${{ARR[@]}}"\n'


@pytest.mark.skipif(not os.path.exists(BASH), reason="no bash here to compare with")
def test_agrees_with_bash() -> None:
    compared = 0
    for seed in range(120):
        script = Maker(seed).script()
        try:
            readings = read_script(file_text(script, "made.sh"))
            run = subprocess.run(
                [BASH, "--norc", "-f", "-c", SHOW + script],
                capture_output=True,
                text=True,
                timeout=5,
                env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"},
            )
        except (PolicyEvalError, subprocess.TimeoutExpired):
            continue
        commands = [command for command in readings[0].commands if command.words[0].text == "vllm"]
        if any(word.unknown for command in commands for word in command.words):
            continue
        compared += 1
        found = "".join(
            "<" + "".join(word.text + "|" for word in command.words[1:]) + ">\n" for command in commands
        )
        assert len(readings) == 1, script
        assert found == run.stdout, script
    assert compared > 90
