"""What the project promises of its speed, held against what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from tables import Table

#: Samples a second of the hosted platform's own scorer: a reference that was measured elsewhere, not here.
PLATFORM_RATE = 1_545


@dataclass(frozen=True)
class Promise:
    """One number and its bound; without a bound it is told for comparison.

    `measured` is None when it could not be measured, and `why` says why. `words` stand in for the two numbers
    where these would say nothing.
    """

    text: str
    measured: float | None
    bound: float | None
    is_ceiling: bool = False
    unit: str = ""
    why: str = "not measured"
    words: tuple[str, str] | None = None

    @property
    def is_missed(self) -> bool:
        """Whether it was measured and does not hold."""
        if self.measured is None or self.bound is None:
            return False
        return self.measured > self.bound if self.is_ceiling else self.measured < self.bound

    def to_row(self) -> list[str]:
        """Return the promise as a row of the table."""
        side = "at most" if self.is_ceiling else "at least"
        bound = "-" if self.bound is None else f"{side} {_say(self.bound)}{self.unit}"
        if self.measured is None:
            return [self.text, "-", bound, self.why]
        verdict = "no promise" if self.bound is None else "MISSED" if self.is_missed else "holds"
        numbers = self.words or (f"{_say(self.measured)}{self.unit}", bound)
        return [self.text, *numbers, verdict]


def _say(number: float) -> str:
    if number >= 100:  # noqa: PLR2004 - where decimals stop to matter
        return f"{number:,.0f}"
    return f"{number:.1f}".removesuffix(".0") if number >= 2 else f"{number:.2f}"  # noqa: PLR2004 - likewise


def tabulate(promises: list[Promise]) -> Table:
    """Return the promises as a table."""
    return Table(("promise", "measured", "promised", ""), [one.to_row() for one in promises])
