"""The texts of the options, and where a completion writes one of them in full."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from answerkey.scorers.stated.labels import Labels
from answerkey.scorers.stated.lexicon import normalize_word
from answerkey.scorers.stated.marks import CLOSE, DRESS, LABEL_MARKS, OPEN, STOPS
from answerkey.scorers.stated.tokens import split_tokens
from answerkey.scorers.stated.units import Units

#: The first word of an option begins within so many characters, whatever stands before it.
_HEAD = 64
_LONG_WORD = 16

_ENGLISH = ("the", "a", "an")
_ROMANCE = ("le", "la", "les", "un", "une", "el", "los", "las", "una", "il", "lo", "gli", "os", "as")
_ARTICLES = frozenset((*_ENGLISH, *_ROMANCE, "um", "uma", "der", "die", "das", "ein", "eine"))
_AFTER_LABEL = LABEL_MARKS | CLOSE

#: The words of an option, and the choice that it belongs to; None if several options have these words.
_Entry = tuple[tuple[str, ...], str | None]


@dataclass(frozen=True, slots=True)
class FoundText:
    """An option's text in a completion: the choice (None if several options have that text), and its end."""

    choice: str | None
    end: int


@dataclass(frozen=True, slots=True)
class OptionTexts:
    """The options as they are written; their words are found once they are needed."""

    options: tuple[str, ...]
    labels: Labels | None
    heads: str = ""

    def find(self, units: Units, at: int) -> FoundText | None:
        """Return the longest option text that begins with the unit at `at`."""
        if self.labels is None or at >= units.size:
            return None
        raw, begin = units.raw, units.places[at]
        if not self._may_begin(raw[begin]):
            return None
        best: tuple[int, str | None] | None = None
        for words, choice in _spell_all(self.options, self.labels).get(raw[begin], ()):
            end = _match(raw, begin, words)
            if end and (best is None or end > best[0]):
                best = end, choice
        return best and FoundText(best[1], bisect_left(units.places, best[0]))

    def _may_begin(self, word: str) -> bool:
        """Say whether an option may begin with this word; quick, and never wrongly no."""
        return word in self.heads or len(word) > _LONG_WORD or not word.isascii() or not self.heads.isascii()

    def is_own(self, units: Units, at: int, choice: str | None) -> bool:
        """Say whether the text of this choice begins at `at`."""
        found = self.find(units, at)
        return found is not None and found.choice == choice


NO_TEXTS = OptionTexts((), None)


def read_texts(options: Sequence[str] | None, labels: Labels) -> OptionTexts:
    """Return the texts of the options, which are in the order of the choices; more than those are ignored."""
    if not options:
        return NO_TEXTS
    texts = tuple(options[: len(labels.choices)])
    return OptionTexts(texts, labels, "\n".join([text.lstrip()[:_HEAD].lower() for text in texts]))


def _match(raw: list[str], begin: int, words: tuple[str, ...]) -> int:
    """Return where the words end that begin here, emphasis between them ignored; 0 if they are others."""
    at, size = begin, len(raw)
    for word in words:
        while at < size and raw[at] != word and raw[at] in DRESS and at < begin + 2 * len(words):
            at += 1
        if at >= size or raw[at] != word:
            return 0
        at += 1
    return at


@lru_cache(maxsize=1024)
def _spell_all(options: tuple[str, ...], labels: Labels) -> dict[str, list[_Entry]]:
    """Return the words of the options by the first of them, and without an article that they begin with."""
    named = list(zip(options, labels.choices, strict=False))
    spelled = [(_spell(text, choice, labels), choice) for text, choice in named]
    owners: dict[tuple[str, ...], list[str]] = {}
    for words, choice in spelled:
        owners.setdefault(words, []).append(choice)
    for words, choice in spelled:
        if len(words) > 1 and words[0] in _ARTICLES and words[1:] not in owners:
            owners[words[1:]] = [choice]
    by_first: dict[str, list[_Entry]] = {}
    for words, choices in owners.items():
        if words:
            by_first.setdefault(words[0], []).append((words, choices[0] if len(choices) == 1 else None))
    return by_first


def _spell(text: str, choice: str, labels: Labels) -> tuple[str, ...]:
    """Return the words of an option without its own label (`(A) Paris`), emphasis and a full stop."""
    tokens = [token for _, token in split_tokens(text.strip())]
    words = [normalize_word(token) for token in tokens]
    begin = _skip_label(tokens, words, choice, labels=labels)
    kept = [word for word in words[begin:] if word not in DRESS]
    while len(kept) > 1 and kept[-1] in STOPS:
        kept.pop()
    return tuple(kept)


def _skip_label(tokens: Sequence[str], words: Sequence[str], choice: str, *, labels: Labels) -> int:
    at = 0
    while at < len(words) and words[at] in OPEN:
        at += 1
    if at + 2 >= len(words) or words[at + 1] not in _AFTER_LABEL:
        return 0
    return at + 2 if labels.find(tokens[at], words[at]) == choice else 0
