"""What a lens is, and how its patterns spell the labels of a sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

#: What a text says, the labels of its sample, and the texts of the options where they are known.
Read = Callable[[str, Sequence[str], Sequence[str]], str | None]

#: How many patterns are kept for label sets in use.
_KEPT = 512


@dataclass(frozen=True)
class Lens:
    """A harness by its name, what it reads in one sentence, and the reading itself.

    `find` may return a label that the sample does not offer; `read` then gives None, since it can be no
    right answer.
    """

    name: str
    about: str
    find: Read

    def read(self, text: str, choices: Sequence[str], options: Sequence[str] | None = None) -> str | None:
        """Return the choice that the harness would read, None for none."""
        found = self.find(text, choices, options or ())
        return found if found in choices else None


def spell(choices: Sequence[str]) -> str:
    """Return the alternation of the labels, for a pattern; longer ones first."""
    return "|".join(map(re.escape, sorted(choices, key=len, reverse=True)))


@lru_cache(maxsize=_KEPT)
def compile_labels(pattern: str, choices: tuple[str, ...], flags: int = re.NOFLAG) -> re.Pattern[str]:
    """Return a pattern with `LABEL` replaced by a group that takes any of the labels."""
    return re.compile(pattern.replace("LABEL", f"({spell(choices)})"), flags)


def find_first(pattern: str, text: str, choices: Sequence[str], flags: int = re.NOFLAG) -> str | None:
    """Return the label in the first match."""
    found = compile_labels(pattern, tuple(choices), flags).search(text)
    return found[1] if found else None


def find_last(pattern: str, text: str, choices: Sequence[str], flags: int = re.NOFLAG) -> str | None:
    """Return the label in the last match; matches do not overlap."""
    label = None
    for found in compile_labels(pattern, tuple(choices), flags).finditer(text):
        label = found[1]
    return label
