"""What a text states: the answers it gives, with their weight, and the choices it excludes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class Weight(IntEnum):
    """How much a statement says: a lower one counts only where there is no higher one."""

    DEFINITE = 0
    TENTATIVE = 1
    VERDICT = 2


@dataclass(frozen=True, slots=True)
class Statement:
    """Choices that a passage states as the answer: several if that is left open, none if it is no choice.

    `part` is the part of the rule that found it; `begin` and `end` are units.
    """

    choices: tuple[str, ...]
    part: str
    weight: Weight
    begin: int
    end: int
    clashes: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The choice or the reason why there is none, the part of the rule that decided, and where (units)."""

    choice: str | None = None
    reason: str | None = None
    part: str | None = None
    begin: int = 0
    end: int = 0


@dataclass(slots=True)
class Findings:
    """What has been found in a text so far."""

    statements: list[Statement] = field(default_factory=list)
    excluded: dict[str, int] = field(default_factory=dict)

    def exclude(self, choices: tuple[str, ...], at: int) -> None:
        """Note that the text excludes these choices."""
        self.excluded.update((choice, at) for choice in choices)
