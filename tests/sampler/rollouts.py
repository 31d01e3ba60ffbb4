"""Rollouts for the tests: our own small ones, and the recordings of the real engines where they are."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy
import torch

from policy_eval.sampler.draw import draw
from policy_eval.sampler.params import Params, row_params
from policy_eval.sampler.pipeline import run
from policy_eval.sampler.recording import parse_request
from policy_eval.sampler.rollout import RequestFinding, judge_request
from policy_eval.sampler.semantics import Name

RECORDINGS: dict[str, Name] = {
    "vllm-0.32-vocab128": "vllm",
    "vllm-0.32-vocab512-ties": "vllm",
    "sglang-0.5.23-vocab128": "sglang-torch",
    "sglang-0.5.23-vocab256-ties": "sglang-torch",
}

Rollout = tuple[list[dict[str, Any]], numpy.ndarray]


def recorded(shared: Path, name: str) -> Rollout:
    folder = shared / "recordings"
    lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], numpy.load(folder / f"{name}.logits.npy", allow_pickle=False)


def invented(semantics: Name = "vllm", vocab: int = 40, requests: int = 12, tokens: int = 4) -> Rollout:
    """Requests sampled by the reference itself from random peaked logits, one row after the other."""
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(requests * tokens, vocab, generator=generator) * 3
    records = []
    for number in range(requests):
        sampling = {
            "temperature": [0.7, 1.0, 1.5][number % 3],
            "top_k": [5, 8, 3, 20][number % 4],
            "top_p": [0.9, 0.95, 1.0][number // 4 % 3],
            "min_p": [0.0, 0.0, 0.02][number % 3],
            "frequency_penalty": [0.0, 0.4][number % 2],
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "seed": number,
        }
        record: dict[str, Any] = {
            "vocab_size": vocab,
            "first_logits_row": number * tokens,
            "prompt_token_ids": [1, 2, 3],
            "sampling_params": sampling,
            "token_ids": [],
            "sampling_mask": [],
            "sampling_mask_logprobs": [],
        }
        for position in range(tokens):
            params = row_params(sampling, record["prompt_token_ids"], record["token_ids"])
            row = logits[number * tokens + position][None]
            found = run(row, Params.build([params], vocab_size=vocab, semantics=semantics))
            token = draw(found.logprobs(), torch.tensor([number]), torch.tensor([position]))
            ids = found.keep()[0].nonzero()[:, 0]
            record["token_ids"].append(int(token))
            record["sampling_mask"].append(ids.tolist())
            record["sampling_mask_logprobs"].append(found.logprobs()[0][ids].tolist())
        records.append(record)
    return records, logits.numpy()


def judged(record: dict[str, Any], logits: numpy.ndarray, semantics: Name) -> list[RequestFinding]:
    """A record, through its text, under the semantics."""
    request = parse_request(json.dumps(copy.deepcopy(record)), "test.jsonl", 1)
    first = record["first_logits_row"]
    rows = torch.tensor(logits[first : first + len(record["token_ids"])])
    return judge_request(request, rows, semantics)
