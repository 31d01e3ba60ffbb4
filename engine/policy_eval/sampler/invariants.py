"""What holds of every row of a rollout that can be trained on, each with an id and a plain sentence.

Names only, without torch, so that a report or a help text can list them cheaply.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """``sentence``: what holds. ``harm``: what a violation does to training."""

    id: str
    sentence: str
    harm: str


_ALL = (
    Invariant(
        id="row-present",
        sentence="every generated token has a mask row and a row of log-probabilities",
        harm="a trainer that reads a missing row as no mask normalises over the whole vocabulary",
    ),
    Invariant(
        id="not-empty",
        sentence="no mask row is empty",
        harm="the log-probability over an empty set is NaN, and one NaN spoils the whole batch",
    ),
    Invariant(
        id="ids-in-range",
        sentence="every id of a mask is an id of the vocabulary",
        harm="an id outside gathers foreign memory or padding, and a padded column gets probability",
    ),
    Invariant(
        id="ids-unique",
        sentence="no id is listed twice in a mask row",
        harm="a repeated id is counted twice in the denominator, so every ratio of the row is too small",
    ),
    Invariant(
        id="count-is-population",
        sentence="the stated count of a row, its ids and its log-probabilities are equally many",
        harm="with different counts, ids and log-probabilities are paired wrongly or cut off",
    ),
    Invariant(
        id="token-in-support",
        sentence="the sampled token is a member of its mask",
        harm="the trainer gives the token probability 0: an infinite loss, or a ratio of 0 that silently drops it",
    ),
    Invariant(
        id="support-is-positive",
        sentence="exactly the members have positive probability: each log-probability is finite and at most 0",
        harm="mask and log-probabilities describe different distributions, so every ratio of the row is biased",
    ),
    Invariant(
        id="logprobs-sum-to-one",
        sentence="the probabilities of the members sum to 1",
        harm="the log-probabilities are normalised over another set (raw_logprobs: the whole vocabulary); "
        "every ratio of the row is off by the kept mass",
    ),
    Invariant(
        id="token-logprob-is-entry",
        sentence="the log-probability of the sampled token is the entry of that token in its row",
        harm="the ratio is computed with a log-probability of another token or another distribution",
    ),
    Invariant(
        id="members-above-kth",
        sentence="every member has at least the k-th largest logit",
        harm="the mask holds tokens that the sampler could not draw, so the trainer's denominator is too large",
    ),
    Invariant(
        id="min-p-ratio",
        sentence="every member has at least min_p times the largest probability",
        harm="the mask holds tokens that the sampler could not draw, so the trainer's denominator is too large",
    ),
    Invariant(
        id="replay-same-support",
        sentence="the filters, run again on the same logits, leave the same support",
        harm="the trainer normalises over other tokens than the sampler drew from: every ratio of the row is biased",
    ),
    Invariant(
        id="ratio-is-one",
        sentence="with the same logits, the trainer's log-probability over the mask equals the engine's",
        harm="the importance ratio is not 1 before the first update, so training is off-policy from the start",
    ),
    Invariant(
        id="logits-usable",
        sentence="a row of logits holds no NaN and no +inf, and some token is left after the edits",
        harm="sampling from such a row gives a garbage id and a NaN log-probability",
    ),
)

INVARIANTS: dict[str, Invariant] = {invariant.id: invariant for invariant in _ALL}
