"""Generation by diffusion: a canvas of positions is looked at in rounds, and each round settles the surest of them."""

from __future__ import annotations

import torch

from policy_eval.sampler.miniature.behaviour import Behaviour
from policy_eval.sampler.miniature.model import VOCABULARY, follow, logits, start
from policy_eval.sampler.miniature.sample import sample
from policy_eval.sampler.miniature.texts import Texts
from policy_eval.sampler.params import row_params

ROUNDS = 3
# Stands for a position that is not settled; no token of the vocabulary.
OPEN = VOCABULARY


def diffuse(texts: Texts, behaviour: Behaviour) -> None:
    """Generate all texts, which are one canvas each. The sampler keeps the rows of its last round."""
    requests = range(len(texts.cases))
    length = texts.cases[0].tokens
    canvas = [[OPEN] * length for _ in requests]
    own = [[0] * length for _ in requests]
    which = torch.arange(len(texts.cases)).repeat_interleave(length)
    place = torch.arange(length).repeat(len(texts.cases))
    first = 0
    for left in range(ROUNDS, 0, -1):
        state = start(texts.seed)
        for position in range(length):
            state = follow(state, torch.tensor([line[position] for line in canvas]))
        params = [
            row_params(
                texts.cases[at].sampling, (), [token for token in canvas[at][:position] if token != OPEN]
            )
            for at in requests
            for position in range(length)
        ]
        raw = logits(follow(state[which], 1000 + place), texts.shape[which])
        sampled = sample(raw, params, behaviour, texts.seed[which], place + 100 * left)
        first = texts.add(sampled)
        confidence = sampled.truth.amax(1).view(-1, length).tolist()
        tokens = sampled.token.view(-1, length).tolist()
        for at in requests:
            still = [position for position in range(length) if canvas[at][position] == OPEN]
            still.sort(key=lambda position: -confidence[at][position])
            for position in still[: -(-len(still) // left)]:
                canvas[at][position] = tokens[at][position]
                own[at][position] = first + at * length + position
    for at in requests:
        texts.tokens[at], texts.own[at] = canvas[at], own[at]
        texts.returned[at] = [first + at * length + position for position in range(length)]
