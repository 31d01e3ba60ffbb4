"""The one table of differences between the engines' samplers. Everything else is shared code.

Every filter keeps a prefix of the tokens in falling order of their processed logit, so an engine is
described by the order of its filters and by what each does at equality.

Sources: vllm and sglang-torch were recorded from the running engines (vLLM 0.32.0, Model Runner V2;
SGLang 0.5.23, torch backend) and are reproduced by the tests. The order of SGLang's logit edits and the rows
sglang-flashinfer and hf were taken from the engines' published behaviour (SGLang's sampling batch,
FlashInfer's sampling documentation, transformers' logits processors) and are not recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Name = Literal["vllm", "sglang-torch", "sglang-flashinfer", "hf"]
Filter = Literal["min_p", "top_k", "top_p"]
Edit = Literal["bias", "repetition", "additive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantics:
    """How one engine turns logits into a support.

    ``edits``: order of the changes to logits; ``additive`` is frequency and presence penalty. Tokens that are
    forbidden (allowed tokens, min_tokens, bad words) become -inf first; as -inf survives every edit, their
    place does not matter.
    ``repetition_sees_prompt``: repetition penalty also counts prompt tokens.
    ``filters``: order of the filters after the temperature. ``joint``: top_p reads the full distribution,
    not what the filters before it left. ``joint_without_min_p``: joint only for rows without min_p (the
    engine decides this for a whole batch; a row is judged as if alone).
    ``top_k_ties``: tokens equal to the k-th logit all stay; else exactly k stay.
    ``top_p_ties``: tokens equal to the last one of the nucleus all stay; else as many as the mass needs.
    ``top_p_equal``: a token stays also where the mass before it equals top_p exactly.
    ``cumulative``: the direction in which the engine sums probabilities, which decides how rounding errors grow.
    ``on_probabilities``: the filters compare probabilities, not logits: tokens rank by rounded values, and a
    probability that underflows to zero leaves the support.
    ``greedy``: the support at temperature 0: one token, or all (vLLM resets top_k, top_p and min_p).
    """

    name: Name
    filters: tuple[Filter, Filter, Filter]
    edits: tuple[Edit, Edit, Edit] = ("bias", "repetition", "additive")
    repetition_sees_prompt: bool = True
    joint: bool = False
    joint_without_min_p: bool = False
    top_k_ties: bool = True
    top_p_ties: bool = False
    top_p_equal: bool = False
    cumulative: Literal["ascending", "descending"] = "ascending"
    on_probabilities: bool = False
    greedy: Literal["one", "all"] = "one"


SEMANTICS: dict[Name, Semantics] = {
    "vllm": Semantics(name="vllm", filters=("min_p", "top_k", "top_p"), greedy="all"),
    "sglang-torch": Semantics(
        name="sglang-torch",
        filters=("top_k", "top_p", "min_p"),
        edits=("additive", "repetition", "bias"),
        repetition_sees_prompt=False,
        joint=True,
        top_k_ties=False,
        top_p_equal=True,
        cumulative="descending",
        on_probabilities=True,
    ),
    "sglang-flashinfer": Semantics(
        name="sglang-flashinfer",
        filters=("top_k", "top_p", "min_p"),
        edits=("additive", "repetition", "bias"),
        repetition_sees_prompt=False,
        joint_without_min_p=True,
        top_p_ties=True,
        cumulative="descending",
        on_probabilities=True,
    ),
    "hf": Semantics(name="hf", filters=("top_k", "top_p", "min_p")),
}
