"""A picture of replays as SVG: how much is allocated as more and more is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import mean
from typing import Final

from claimsmith.replay.experiment import Series

__all__ = ["draw_plot"]

WIDTH: Final = 900
HEIGHT: Final = 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 30, 50, 60
_LOWEST: Final = 80
"""Percent of arrival at which the picture begins."""
_COLOURS: Final = ("#0b6e4f", "#2f6fde", "#c0392b", "#8e44ad", "#b9770e")


def draw_plot(series: Sequence[Series], *, title: str) -> str:
    """Return the picture: a line for each series, the mean over its seeds, and a dotted line for the bound."""
    curves = {item.name: _average([run.rates for run in item.runs]) for item in series}
    bounds = _average([run.bounds for item in series for run in item.runs])
    points = [value for curve in curves.values() for percent, value in curve.items() if percent >= _LOWEST]
    right = max((percent for curve in curves.values() for percent in curve), default=100)
    low, high = int(min(points, default=90)) - 1, 100
    frame = _Frame(right, low, high)
    parts = [*_draw_axes(frame, title)]
    for place, (name, curve) in enumerate(curves.items()):
        parts += _draw_line(frame, curve, name, _COLOURS[place % len(_COLOURS)], place=place)
    if bounds:
        parts += _draw_line(frame, bounds, "bound", "#555555", place=len(curves), dash="3 5")
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="14">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{body}\n</svg>\n'
    )


class _Frame:
    """Where percents stand in the picture."""

    def __init__(self, right: int, low: int, high: int) -> None:
        self.right, self.low, self.high = max(right, _LOWEST + 1), low, high

    def x(self, percent: float) -> float:
        """Return the place of a rate of arrival."""
        return round(_LEFT + (percent - _LOWEST) / (self.right - _LOWEST) * (WIDTH - _LEFT - _RIGHT), 1)

    def y(self, percent: float) -> float:
        """Return the place of an allocation rate."""
        share = (min(percent, self.high) - self.low) / (self.high - self.low)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)


def _average(curves: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """The mean at the places that all curves have."""
    if not curves:
        return {}
    shared = set.intersection(*[set(curve) for curve in curves])
    return {percent: mean(curve[percent] for curve in curves) for percent in sorted(shared)}


def _draw_axes(frame: _Frame, title: str) -> list[str]:
    parts = [f'<text x="{WIDTH / 2}" y="28" text-anchor="middle" font-size="18">{escape(title)}</text>']
    for percent in range(_LOWEST, frame.right + 1, 10):
        x = frame.x(percent)
        parts.append(f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{HEIGHT - _BOTTOM}" stroke="#eeeeee"/>')
        parts.append(f'<text x="{x}" y="{HEIGHT - _BOTTOM + 20}" text-anchor="middle">{percent}</text>')
    for percent in range(frame.low, frame.high + 1, 2):
        y = frame.y(percent)
        parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}" stroke="#eeeeee"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 5}" text-anchor="end">{percent}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 16}" text-anchor="middle">GPUs asked for, % of all</text>')
    parts.append(
        f'<text x="20" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 20 {HEIGHT / 2})">'
        "GPUs allocated, % of all</text>"
    )
    return parts


def _draw_line(
    frame: _Frame, curve: Mapping[int, float], name: str, colour: str, *, place: int, dash: str = ""
) -> list[str]:
    """One line with its name in the corner."""
    shown = {percent: value for percent, value in curve.items() if percent >= _LOWEST and value >= frame.low}
    points = " ".join(f"{frame.x(percent)},{frame.y(value)}" for percent, value in shown.items())
    style = f'fill="none" stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")
    y = HEIGHT - _BOTTOM - 20 - 20 * place
    return [
        f'<polyline points="{points}" {style}/>',
        f'<line x1="{WIDTH - 250}" y1="{y}" x2="{WIDTH - 220}" y2="{y}" {style}/>',
        f'<text x="{WIDTH - 212}" y="{y + 5}">{escape(name)}</text>',
    ]
