"""The choices of a row as labels in a text, in every spelling that cannot be mistaken.

`b`, a full-width or a circled letter stand for `B`; `2` stands for a circled two, and the other way.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from answerkey.scorers.characters import compose
from answerkey.scorers.stated.lexicon import normalize_word

#: Longer tokens are no label: room for `viii` and for a letter with its marks.
LONGEST_LABEL = 8

_DECORATION = "().\ufe0e\ufe0f\u20e3"


@dataclass(frozen=True, eq=False)
class Labels:
    """The choices by what may be written for them; `fold` gives a token the form of the keys.

    `is_plain`: neither case nor typography tells two choices apart.
    """

    choices: tuple[str, ...]
    by_key: dict[str, str]
    fold: Callable[[str], str]
    is_plain: bool

    def find(self, token: str, word: str) -> str | None:
        """Return the choice that a token names; `word` is the token as the lexicon spells it."""
        if self.is_plain and token.isascii():
            return self.by_key.get(word)
        return self.by_key.get(self.fold(token)) if len(token) <= LONGEST_LABEL else None

    def resembles(self, token: str) -> bool:
        """Say whether a token looks like a label of the same kind that is not among the choices: `E`."""
        if len(token) != 1 or not token.isalnum():
            return False
        return _find_kind(token) in {_find_kind(choice[0]) for choice in self.choices}


@lru_cache(maxsize=256)
def read_labels(choices: tuple[str, ...]) -> Labels:
    """Return the labels of these choices, read as freely as keeps all of them apart."""
    for fold in (_fold_all, _fold_forms):
        by_key = {fold(choice): choice for choice in choices}
        if len(by_key) == len(choices):
            return Labels(choices, by_key, fold, fold is _fold_all)
    return Labels(choices, {choice: choice for choice in choices}, compose, is_plain=False)


def _fold_all(token: str) -> str:
    return normalize_word(_fold_forms(token))


def _fold_forms(token: str) -> str:
    """Return a token without typographic variety: full-width, circled, bold, other digits; case stays."""
    token = unicodedata.normalize("NFKC", token)
    bare = token.strip(_DECORATION) or token
    return "".join(str(unicodedata.decimal(one)) if one.isdecimal() else one for one in bare)


def _find_kind(character: str) -> tuple[bool, bool, str]:
    script = unicodedata.name(character, "?").partition(" ")[0]
    return character.isupper(), character.isdecimal(), script
