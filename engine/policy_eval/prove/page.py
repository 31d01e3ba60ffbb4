"""A proof as one HTML page for people who look rather than read: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape

from policy_eval.prove import svg
from policy_eval.prove.evidence import Evidence
from policy_eval.prove.proof import Proof, RuleProof, Witness

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #5c5c5c; --paper: #fff; --card: #f6f6f4; --line: #d9d9d4;
  --with: #2563eb; --without: #d97706; --good: #15803d; --bad: #b91c1c; --unsure: #92600a; }
@media (prefers-color-scheme: dark) { :root { --ink: #eaeaea; --soft: #a3a3a3; --paper: #161616; --card: #212121;
  --line: #3a3a3a; --with: #6d9eff; --without: #f0a33c; --good: #4ade80; --bad: #f87171; --unsure: #e0b050; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1040px; padding: 28px 20px 60px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 36px 0 10px; } h3 { font-size: 15px; margin: 0; }
p { margin: 4px 0 10px; max-width: 78ch; } .soft { color: var(--soft); }
pre { font: 13px/1.45 ui-monospace, monospace; }
pre { margin: 8px 0 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 14px 16px; margin: 0 0 14px; }
.head { display: flex; gap: 10px; align-items: baseline; flex-wrap: wrap; }
.tag { font-size: 13px; font-weight: 600; border: 1.5px solid; border-radius: 99px; padding: 1px 10px; }
.good { color: var(--good); } .bad { color: var(--bad); } .unsure { color: var(--unsure); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 6px 20px;
  margin-top: 10px; }
figure { margin: 0; } figcaption { font-size: 13px; color: var(--soft); }
svg { width: 100%; height: auto; display: block; }
.numbers { border-collapse: collapse; font-size: 14px; margin: 8px 0 2px; font-variant-numeric: tabular-nums; }
.numbers th { text-align: left; font-weight: 500; color: var(--soft); padding: 2px 22px 2px 0; }
.numbers td { padding: 2px 22px 2px 0; } .scroll { overflow-x: auto; }
.tick { font: 11px system-ui, sans-serif; fill: var(--soft); } .axis { stroke: var(--line); stroke-width: 1; }
.with { fill: var(--with); } .without { fill: var(--without); } .mark { fill: var(--bad); }
.absent { fill: none; stroke: var(--without); stroke-width: 1.2; stroke-dasharray: 3 2; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin: 0 4px 0 12px; }
.key:first-child { margin-left: 0; } summary { cursor: pointer; color: var(--soft); font-size: 13px; margin-top: 8px; }
"""

_TONE = {
    "proved": "good",
    "not proved": "bad",
    "no damage": "bad",
    "too strict": "bad",
    "redundant": "bad",
    "fails": "bad",
    "not modelled": "unsure",
    "advice": "unsure",
}


def render(proof: Proof) -> str:
    """The page."""
    title = f"Proof of {', '.join(proof.policies)}"
    body = "\n".join(_body(proof, title))
    # Even if some text slipped through unescaped, nothing would run and nothing would be loaded.
    safety = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{safety}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>"
    )


def _body(proof: Proof, title: str) -> Iterator[str]:
    yield f'<div class="head"><h1>{escape(title)}</h1>{_tag(proof.outcome)}</div>'
    space = proof.lattice
    releases = f" for {proof.releases[0]} to {proof.releases[-1]}" if proof.releases else ""
    cut = f" of {space.total:,}" if len(space.documents) < space.total else ""
    yield (
        f'<p class="soft">{len(space.documents):,}{cut} configurations over {len(space.axes)} facts{releases}. '
        f"{proof.requested:,} ask for sampling masks, {proof.passed:,} of these are let through.</p>"
    )
    for trouble in proof.troubles:
        yield f'<p class="bad">{escape(trouble)}</p>'
    if proof.counterexamples:
        yield "<h2>Counterexamples: let through, and not consistent</h2>"
        for one in proof.counterexamples:
            yield f'<section class="card">{"".join(_witness(one, _fine(proof)))}</section>'
    if proof.approved:
        yield "<h2>What is let through</h2>"
        yield "".join(_approved(proof))
    yield "<h2>What each rule keeps out</h2>"
    yield (
        "<p>For each rule a configuration that no other rule rejects was run as if the rule were not there. "
        "The importance ratio is the trainer's probability of a token over its mask (over the whole vocabulary where "
        "none came) divided by the probability that the engine returned: 1 before the first update, if all is well.</p>"
    )
    yield (
        '<p class="soft"><span class="key" style="background:var(--with)"></span>let through by all rules'
        '<span class="key" style="background:var(--without)"></span>kept out by this rule only</p>'
    )
    for rule in proof.rules:
        yield f'<section class="card">{"".join(_rule(rule, _fine(proof)))}</section>'


def _tag(status: str) -> str:
    return f'<span class="tag {_TONE[status]}">{escape(status)}</span>'


def _fine(proof: Proof) -> Sequence[float]:
    """The ratios of everything that is let through and consistent."""
    return [
        ratio
        for one in proof.approved
        if one.evidence and one.evidence.consistent
        for ratio in one.evidence.ratios
    ]


def _approved(proof: Proof) -> Iterator[str]:
    fine = [one.evidence for one in proof.approved if one.evidence]
    judged, bad = sum(one.judged for one in fine), sum(1 for one in fine if not one.consistent)
    tone, words = ("bad", f"{bad} not consistent") if bad else ("good", "every one consistent")
    ways = f"{len(fine)} {'way' if len(fine) == 1 else 'ways'} of generating"
    yield f'<section class="card"><p>{ways}, {judged:,} tokens judged: <b class="{tone}">{words}</b>.</p>'
    ratios = [ratio for one in fine for ratio in one.ratios]
    sizes = [size for one in fine for size in one.sizes]
    yield '<div class="pictures">'
    yield _figure(
        svg.ratio_histogram(ratios, (), "importance ratios of what is let through"),
        "importance ratio, share of tokens",
    )
    yield _figure(
        svg.size_histogram(sizes, "mask sizes of what is let through"), "ids in a mask, share of tokens"
    )
    yield "</div>"
    yield _documents("configurations", [one.document for one in proof.approved])
    yield "</section>"


def _rule(rule: RuleProof, fine: Sequence[float]) -> Iterator[str]:
    yield f'<div class="head"><h3>{escape(rule.rule.id)}</h3>{_tag(rule.status)}'
    yield f'<span class="soft">{escape(rule.rule.message)}</span></div>'
    if not rule.damage or rule.status != "proved":
        yield f"<p>{escape(rule.sentence)}</p>"
    if rule.damage:
        yield from _witness(rule.damage[0], fine, [one.document for one in rule.damage])
    if rule.needless:
        yield _documents("rejected without need", [rule.needless.document], shown=True)


def _witness(witness: Witness, fine: Sequence[float], documents: Sequence[object] = ()) -> Iterator[str]:
    evidence = witness.evidence
    if evidence is not None:
        yield _numbers(evidence)
        yield '<div class="pictures">'
        if evidence.ratios:
            picture = svg.ratio_histogram(
                fine, evidence.ratios, "importance ratios with and without the rule"
            )
            yield _figure(picture, "importance ratio, share of tokens")
        row = evidence.broken
        if row is not None:
            caption = (
                f"<b>token {row.position}</b> of a request with {row.case.shape} logits: {escape(row.message)}. "
                f"{_mask_words(row.mask)}"
            )
            yield _figure(svg.broken_row(row, "the first broken row"), caption)
        yield "</div>"
    yield _documents(
        "configurations" if len(documents) > 1 else "configuration", documents or [witness.document]
    )


def _mask_words(mask: Sequence[int] | None) -> str:
    shown = "No mask came" if mask is None else "Filled: in the returned mask"
    return f"{shown}; dashed: drawn from, not in it; &#9660; the sampled token."


def _numbers(evidence: Evidence) -> str:
    if evidence.refused:
        return f"<p>{evidence.refused} of {evidence.refused + evidence.served} requests are refused.</p>"
    of = f" of {evidence.counted}"
    infinite = f" (infinite for {evidence.kl_infinite})" if evidence.kl_infinite else ""
    cells = (
        ("rows missing", f"{evidence.missing}{of}"),
        ("rows misaligned", f"{evidence.misaligned}{of}"),
        ("tokens outside their mask", f"{evidence.outside}{of}"),
        ("|sum p &minus; 1|", f"{evidence.sum_off:.2g}" if evidence.sum_off > 1e-4 else "0"),
        ("importance ratio", f"{evidence.ratio_mean:.3f} &plusmn; {evidence.ratio_spread:.2g}"),
        ("KL, nats", f"{evidence.kl if evidence.kl > 1e-6 else 0:.3f}{infinite}"),
    )
    head = "".join(f"<th>{name}</th>" for name, _ in cells)
    data = "".join(f"<td>{value}</td>" for _, value in cells)
    return f'<div class="scroll"><table class="numbers"><tr>{head}</tr><tr>{data}</tr></table></div>'


def _documents(name: str, documents: Sequence[object], *, shown: bool = False) -> str:
    text = "\n".join(escape(json.dumps(one)) for one in documents)
    return f"<details{' open' if shown else ''}><summary>{name}</summary><pre>{text}</pre></details>"


def _figure(picture: str, caption: str) -> str:
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"
