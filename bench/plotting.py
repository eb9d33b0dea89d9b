"""A small plot as SVG: rows against seconds, both on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tables import say_rows

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 200, 20, 50
COLOURS = ("#0b6e4f", "#2a9d8f", "#7a7a7a", "#c77d1e", "#a4243b", "#6a4c93", "#33658a")
LABEL_HEIGHT = 15
FONT = 'font-family="sans-serif" font-size="12"'


@dataclass(frozen=True)
class Line:
    """Points (rows, seconds) under a name; a line that follows from one rate is dashed."""

    name: str
    points: Sequence[tuple[int, float]]
    is_dashed: bool = False


def draw_plot(lines: Sequence[Line]) -> str:
    """Return the plot."""
    points = [point for line in lines for point in line.points]
    frame = _Frame(
        (math.log10(min(rows for rows, _ in points)), math.log10(max(rows for rows, _ in points))),
        (
            math.floor(math.log10(min(seconds for _, seconds in points))),
            math.ceil(math.log10(max(seconds for _, seconds in points))),
        ),
    )
    body = [
        *frame.draw_grid(),
        *(part for place, line in enumerate(lines) for part in frame.draw_line(line, place)),
    ]
    body += frame.draw_labels(lines)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        ]
    )


@dataclass(frozen=True)
class _Frame:
    """The scales: exponents of ten, from and to."""

    across: tuple[float, float]
    upward: tuple[int, int]

    def place(self, rows: float, seconds: float) -> tuple[float, float]:
        """Return where a point stands."""
        width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        x = (math.log10(rows) - self.across[0]) / ((self.across[1] - self.across[0]) or 1)
        y = (math.log10(seconds) - self.upward[0]) / ((self.upward[1] - self.upward[0]) or 1)
        return round(LEFT + x * width, 1), round(TOP + (1 - y) * height, 1)

    def draw_grid(self) -> Iterator[str]:
        """Yield the lines at powers of ten, with their numbers."""
        for power in range(self.upward[0], self.upward[1] + 1):
            _, y = self.place(10 ** self.across[0], 10.0**power)
            yield f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="#dddddd"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{10.0**power:g} s</text>'
        for power in range(math.ceil(self.across[0]), math.floor(self.across[1]) + 1):
            x, _ = self.place(10.0**power, 10.0 ** self.upward[0])
            yield f'<path d="M{x} {TOP}V{HEIGHT - BOTTOM}" stroke="#dddddd"/>'
            below = HEIGHT - BOTTOM + 18
            yield f'<text x="{x}" y="{below}" text-anchor="middle">{say_rows(10**power)}</text>'
        middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
        yield f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">rows</text>'

    def draw_line(self, line: Line, number: int) -> Iterator[str]:
        """Yield a line and its points."""
        colour = COLOURS[number % len(COLOURS)]
        places = [self.place(rows, seconds) for rows, seconds in line.points]
        dashes = ' stroke-dasharray="5 4"' if line.is_dashed else ""
        path = " ".join(f"{x},{y}" for x, y in places)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        if not line.is_dashed:
            yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places)

    def draw_labels(self, lines: Sequence[Line]) -> Iterator[str]:
        """Yield the names beside the ends of the lines, moved apart where they would touch."""
        ends = sorted((self.place(*line.points[-1])[1], number) for number, line in enumerate(lines))
        lowest = -math.inf
        for y, number in ends:
            lowest = max(y, lowest + LABEL_HEIGHT)
            x = WIDTH - RIGHT + 8
            colour = COLOURS[number % len(COLOURS)]
            yield f'<text x="{x}" y="{lowest + 4:.1f}" fill="{colour}">{escape(lines[number].name)}</text>'
