"""Speculative decoding with rejection sampling: a draft model proposes, the target verifies several positions at once.

The committed tokens have exactly the target's distribution; what goes wrong is which mask row is kept for which.
"""

from __future__ import annotations

import torch
from torch import Tensor

from policy_eval.sampler.draw import draw, gumbel
from policy_eval.sampler.miniature.behaviour import Behaviour
from policy_eval.sampler.miniature.model import draft, follow, logits
from policy_eval.sampler.miniature.sample import Sampled, sample
from policy_eval.sampler.miniature.texts import NO_ROW, Texts

DRAFTED = 3
# Adaptive verification stops where the draft's largest probability is below this.
CONFIDENT = 0.35
# Requests whose rows lie in one buffer.
BATCH = 4


def speculate(texts: Texts, behaviour: Behaviour) -> None:
    """Generate all texts."""
    while requests := texts.unfinished():
        _step(texts, requests, behaviour)


def _step(texts: Texts, requests: list[int], behaviour: Behaviour) -> None:
    """Draft, verify, and commit, for every request once."""
    active = len(requests)
    seed, shape = texts.seed[requests], texts.shape[requests]
    begin = torch.tensor([len(texts.tokens[at]) for at in requests])
    state = texts.states(requests)
    drafts: list[Sampled] = []
    targets: list[Tensor] = []
    proposed: list[list[int]] = [[] for _ in requests]
    rows = []
    for ahead in range(DRAFTED + 1):
        target = logits(state, shape)
        targets.append(target)
        params = [texts.row(at, proposed[index]) for index, at in enumerate(requests)]
        rows.append(params)
        if ahead < DRAFTED:
            drafts.append(sample(draft(target, state), params, Behaviour(), seed * 3 + 1, begin + ahead))
            for index, token in enumerate(drafts[-1].token.tolist()):
                proposed[index].append(token)
            state = follow(state, drafts[-1].token)
    verified = [DRAFTED] * active
    if behaviour.speculation == "adaptive":
        sure = torch.stack([one.truth.amax(1) >= CONFIDENT for one in drafts], 1)
        verified = sure.long().cumprod(1).sum(1).tolist()
    # The target looks at the verified positions and the one after them, request by request.
    looked = [(at, ahead) for at in range(active) for ahead in range(verified[at] + 1)]
    which = torch.tensor([at for at, _ in looked])
    ahead_of = torch.tensor([ahead for _, ahead in looked])
    sampled = sample(
        torch.stack(targets)[ahead_of, which],
        [rows[ahead][at] for at, ahead in looked],
        behaviour,
        seed[which],
        begin[which] + ahead_of,
    )
    first = texts.add(sampled)
    start = 0
    starts = []
    for at in range(active):
        starts.append(start)
        start += verified[at] + 1
    place = begin[:, None] + torch.arange(DRAFTED)
    token = torch.tensor(proposed)
    uniform = torch.exp(-torch.exp(-gumbel(seed[:, None] * 3 + 2, place, token)))
    likely = torch.stack([one.truth for one in drafts], 1)
    guessed = (uniform * likely.gather(2, token[:, :, None]).squeeze(2)).tolist()
    for at, request in enumerate(requests):
        committed: list[int] = []
        for ahead in range(verified[at]):
            truth = sampled.truth[starts[at] + ahead]
            if guessed[at][ahead] >= float(truth[proposed[at][ahead]]):
                rest = (truth - likely[at, ahead]).clamp(min=0)
                recovered = draw(
                    (rest / rest.sum()).log()[None], seed[at : at + 1], place[at, ahead : ahead + 1]
                )
                committed.append(int(recovered))
                break
            committed.append(proposed[at][ahead])
        else:
            committed.append(int(sampled.token[starts[at] + verified[at]]))
        left = texts.cases[request].tokens - int(begin[at])
        own = [first + starts[at] + ahead for ahead in range(len(committed))]
        texts.tokens[request] += committed[:left]
        texts.own[request] += own[:left]
        if behaviour.rows_per == "step":
            texts.returned[request].append(own[-1])
            continue
        # The reader of the masks expects as many rows of each request, whatever was verified.
        group = at - at % BATCH
        end = starts[group + BATCH] if group + BATCH < active else start
        begins = starts[group] + (at - group) * (DRAFTED + 1)
        for ahead in range(len(committed[:left])):
            found = begins + ahead
            texts.returned[request].append(first + found if found < end else NO_ROW)
