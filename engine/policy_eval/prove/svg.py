"""The pictures of a proof, as inline SVG: histograms of two series, and one row of a distribution with its mask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from policy_eval.prove.evidence import BrokenRow

WIDTH, HEIGHT = 440, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 10, 30
# Ids of a row that are drawn: the likeliest, and all that the mask or the token adds.
_IDS = 32


def ratio_histogram(with_rule: Sequence[float], without_rule: Sequence[float], title: str) -> str:
    """Importance ratios on a logarithmic axis, half an octave a bar; left of it 0; the rest in the outer bars."""
    steps = range(-8, 9)
    labels = ["0", "", *("" for _ in steps), ""]
    for step, label in ((-8, "1/16"), (-4, "1/4"), (0, "1"), (4, "4"), (8, "16")):
        labels[step + 10] = label

    def place(ratio: float) -> int:
        if ratio <= 0:
            return 0
        return min(max(round(2 * math.log2(ratio)), -9), 9) + 10

    series = [_shares([place(one) for one in some], len(labels)) for some in (with_rule, without_rule)]
    return _bars(series, labels, title)


def size_histogram(sizes: Sequence[int], title: str) -> str:
    """How many ids masks have, up to 64 by doubling."""
    labels = ["1", "2", "3-4", "5-8", "9-16", "17-32", "33-64"]
    places = [min(max(size - 1, 0).bit_length(), len(labels) - 1) for size in sizes]
    return _bars([_shares(places, len(labels))], labels, title)


def _shares(places: Sequence[int], bins: int) -> list[float]:
    return [places.count(at) / len(places) if places else 0.0 for at in range(bins)]


def _bars(series: Sequence[Sequence[float]], labels: Sequence[str], title: str) -> str:
    slot = (WIDTH - _LEFT - _RIGHT) / len(labels)
    width = slot * 0.8 / len(series)
    parts = [_axis()]
    for number, shares in enumerate(series):
        for at, share in enumerate(shares):
            if share > 0:
                x = _LEFT + slot * at + slot * 0.1 + width * number
                height = max(1.5, share * (HEIGHT - _TOP - _BOTTOM))
                y = HEIGHT - _BOTTOM - height
                name = ("with", "without")[number]
                parts.append(
                    f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}">'
                    f"<title>{share:.1%}</title></rect>"
                )
    for at, label in enumerate(labels):
        if label:
            x = _LEFT + slot * (at + 0.5)
            parts.append(_label(x, HEIGHT - _BOTTOM + 14, label))
    return _svg(parts, title)


def broken_row(row: BrokenRow, title: str) -> str:
    """Probabilities as the token was drawn, likeliest first; filled where the id is in the returned mask."""
    mask = set(row.mask or ())
    order = sorted(range(len(row.drawn)), key=lambda token: -row.drawn[token])
    ids = [token for at, token in enumerate(order) if at < 12 or token in mask or token == row.token]
    ids = [token for token in ids if row.drawn[token] > 0 or token in mask][:_IDS]
    if row.token not in ids:
        ids[-1:] = [row.token]
    top = max(row.drawn[token] for token in ids) or 1.0
    slot = min(30.0, (WIDTH - _LEFT - _RIGHT) / len(ids))
    room = HEIGHT - _TOP - _BOTTOM - 12
    parts = [
        f'<line class="axis" x1="{_LEFT}" y1="{HEIGHT - _BOTTOM}" x2="{WIDTH}" y2="{HEIGHT - _BOTTOM}"/>'
    ]
    for at, token in enumerate(ids):
        x = _LEFT + slot * at
        height = max(1.5, row.drawn[token] / top * room)
        name = "with" if token in mask else "absent"
        told = f"id {token}: drawn with probability {row.drawn[token]:.3g}, "
        told += "in the mask" if token in mask else "not in the mask"
        parts.append(
            f'<rect class="{name}" x="{x + slot * 0.12:.1f}" y="{HEIGHT - _BOTTOM - height:.1f}" '
            f'width="{slot * 0.76:.1f}" height="{height:.1f}"><title>{told}</title></rect>'
        )
        if token == row.token:
            y = HEIGHT - _BOTTOM - height - 4
            middle = x + slot / 2
            parts.append(f'<path class="mark" d="M{middle - 5:.1f} {y - 8:.1f}h10l-5 8z"/>')
        if slot >= 12:
            parts.append(_label(x + slot / 2, HEIGHT - _BOTTOM + 12, str(token)))
    parts.append(_label(WIDTH / 2, HEIGHT - 3, "token id, likeliest first"))
    return _svg(parts, title)


def _axis() -> str:
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)
        parts.append(f'<line class="axis" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    return "".join(parts)


def _label(x: float, y: float, text: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def _svg(parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
