"""Shared by all rules: characters, white space and words, and the reading that a rule returns."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from functools import cache

#: What `str.splitlines` breaks at.
LINE_BREAKS = "\n\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029"

#: White space within a line: what `str.isspace` accepts, and three invisible characters.
SPACES = (
    "\t\x1f "
    "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
    "\ufeff\u200b\u2060"
)

WHITE_SPACE = LINE_BREAKS + SPACES

#: A character of more code points is never a choice; composing longer runs of marks takes quadratic
#: time.
LONGEST_CHARACTER = 32

_SPACES = re.compile(f"[{SPACES}]+")


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of a rule: the choice that a text names, or the reason why it names none.

    Where a rule has parts, `part` is the one that decided, and `span` the passage of the text, as
    offsets. Where something speaks against a choice, it is `doubted`, and `doubt` says what.
    """

    choice: str | None = None
    reason: str | None = None
    span: tuple[int, int] | None = None
    part: str | None = None
    doubted: str | None = None
    doubt: str | None = None

    @property
    def confidence(self) -> str | None:
        """How sure the reading is: `stated`, `doubted` or `weak`; None if nothing is read."""
        if self.doubt == "only_named":
            return "weak"
        if self.doubted is not None:
            return "doubted"
        return None if self.choice is None else "stated"


#: How sure a reading is, the surest first.
GRADES = ("stated", "doubted", "weak")


def accept_reading(reading: Reading, grade: str) -> Reading:
    """Return a reading with its doubted choice as its choice if that is as sure as `grade`."""
    if reading.doubted is None:
        return reading
    accepted = GRADES[: GRADES.index(grade) + 1]
    if reading.confidence not in accepted:
        return reading
    return replace(reading, choice=reading.doubted, reason=None)


def skip_spaces(text: str, at: int) -> int:
    """Return the first position from `at` on that is not a space; line breaks are not spaces."""
    match = _SPACES.match(text, at)
    return at if match is None else match.end()


def find_first_label(text: str) -> tuple[int, int]:
    """Return where a label at the beginning of the text would be: after its white space."""
    begin = len(text) - len(text.lstrip(WHITE_SPACE))
    size = measure_character(text, begin)
    return begin, begin + min(size, LONGEST_CHARACTER)


def is_word_character(character: str) -> bool:
    """Say whether a code point is a letter, a number, a mark or `_`; nothing (`""`) is not."""
    if character.isascii():
        return character.isalnum() or character == "_"
    return unicodedata.category(character)[0] in "LNM"


def match_word(text: str, at: int, words: frozenset[str]) -> int | None:
    """Return the length of the word at `at` if it is one of `words`, in any case.

    None if it is another. 0 if there is no word. No more is read than the longest of them takes.
    """
    end = at
    longest = at + max(map(len, words))
    while end <= longest and is_word_character(text[end : end + 1]):
        end += 1
    is_known = end == at or text[at:end].lower() in words
    return end - at if is_known else None


def measure_character(text: str, at: int = 0) -> int:
    """Return how many code points the user-perceived character at `at` has; 0 at the end."""
    if text[at : at + 2].isascii():
        return min(1, len(text) - at)
    match = _clusters().match(text, at)
    return len(match[0]) if match else 0


def read_character(text: str, at: int = 0) -> tuple[str, int]:
    """Return the user-perceived character at `at` in NFC, and where it ends."""
    end = at + measure_character(text, at)
    return compose(text[at:end]), end


def compose(character: str) -> str:
    """Return a character in NFC, so that composed and decomposed spellings are equal."""
    if character.isascii() or len(character) > LONGEST_CHARACTER:
        return character
    return unicodedata.normalize("NFC", character)


@cache
def _clusters() -> re.Pattern[str]:
    import regex  # type: ignore[import-untyped]  # its patterns have the methods of `re.Pattern`

    clusters: re.Pattern[str] = regex.compile(r"\X")
    return clusters
