"""A text in units: words, phrases and marks with the part that each plays, and the labels among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from answerkey.scorers.characters import LINE_BREAKS
from answerkey.scorers.stated.labels import LONGEST_LABEL, Labels
from answerkey.scorers.stated.lexicon import Branch, fold_accents, load_lexicon, normalize_word
from answerkey.scorers.stated.roles import ENDING
from answerkey.scorers.stated.tokens import split_tokens

#: The word of a line break, whichever it is.
BREAK = "\n"

_FIRST_HANGUL = "\uac00"
_OTHER_BREAKS = re.compile(f"[{LINE_BREAKS[1:]}]")


@dataclass(frozen=True, slots=True)
class Units:
    """Lists of the same `size`: words with the spaces before them, roles, labels, and where they end.

    A unit is a token, or a phrase of several; the word of a phrase is empty. `raw` holds the words of all
    tokens, and `places` where each unit begins among them.
    """

    text: str
    raw: list[str]
    places: Sequence[int]
    gaps: list[str]
    words: list[str]
    roles: list[int]
    labels: list[str | None]
    ends: list[int]
    size: int

    def start(self, at: int) -> int:
        """Return where a unit begins in the text."""
        return (self.ends[at - 1] if at else 0) + len(self.gaps[at])

    def token(self, at: int) -> str:
        """Return a unit as it is written."""
        return self.text[self.start(at) : self.ends[at]]


def split_units(text: str, labels: Labels) -> Units:
    """Return the text in units; the longest phrase wins."""
    lexicon = load_lexicon()
    if text.isascii() and labels.is_plain and "'" not in text:
        found = split_tokens(text.lower())
        raw = [token for _, token in found]
        branches = list(map(lexicon.get, raw))
        names = list(map(labels.by_key.get, raw))
    else:
        found = split_tokens(text)
        raw = [normalize_word(token) for _, token in found]
        branches = [lexicon.get(word) or _look_closer(word) for word in raw]
        names = [_find_label(labels, token, word) for (_, token), word in zip(found, raw, strict=True)]
    ends = list(accumulate(len(gap) + len(token) for gap, token in found))
    if _OTHER_BREAKS.search(text):
        raw = [BREAK if word[:1] in LINE_BREAKS else word for word in raw]
    roles = [0 if branch is None else branch.roles for branch in branches]
    units = Units(text, raw, range(len(raw)), [gap for gap, _ in found], raw, roles, names, ends, len(raw))
    phrases = list(_find_phrases(raw, branches))
    return _join_phrases(units, phrases) if phrases else units


def _look_closer(word: str) -> Branch | None:
    """Return the branch of a word that is written without its accents."""
    return None if word.isascii() else load_lexicon().get(fold_accents(word))


def _find_label(labels: Labels, token: str, word: str) -> str | None:
    if len(token) > LONGEST_LABEL:
        return None
    found = labels.find(token, word)
    if found is not None or len(word) == 1 or not (word[1] == "'" or word[0] >= _FIRST_HANGUL):
        return found
    ending = load_lexicon().get(word[1:].removeprefix("'"))
    return labels.find(token[0], word[0]) if ending is not None and ending.roles & ENDING else None


def _find_phrases(raw: list[str], branches: list[Branch | None]) -> Iterator[tuple[int, int, int]]:
    """Yield where the phrases of several words begin and end, and their roles."""
    position, count = 0, len(raw)
    for at, first in enumerate(branches):
        if first is None or not first.following or at < position:
            continue
        branch, end, roles, further = first, at + 1, 0, at + 1
        while further < count and (following := branch.following.get(raw[further])) is not None:
            branch = following
            further += 1
            if branch.roles:
                end, roles = further, branch.roles
        if roles:
            position = end
            yield at, end, roles


def _join_phrases(units: Units, phrases: Sequence[tuple[int, int, int]]) -> Units:
    """Return the units with the tokens of each phrase as one."""
    last = {begin: end - 1 for begin, end, _ in phrases}
    within = {at for begin, end, _ in phrases for at in range(begin + 1, end)}
    kept = [at for at in range(units.size) if at not in within]
    for begin, _, roles in phrases:
        units.roles[begin], units.labels[begin] = roles, None
    return Units(
        units.text,
        units.raw,
        kept,
        [units.gaps[at] for at in kept],
        ["" if at in last else units.raw[at] for at in kept],
        [units.roles[at] for at in kept],
        [units.labels[at] for at in kept],
        [units.ends[last.get(at, at)] for at in kept],
        len(kept),
    )
