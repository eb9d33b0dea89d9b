"""The words of all languages in one place: what part a word, or the longest phrase from it on, plays.

The words stand in `words/`, a file for each language: roles (see `roles`), a colon, words and phrases.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from answerkey.scorers.stated.roles import NAMES
from answerkey.scorers.stated.tokens import split_tokens

#: Marks that Arabic may or may not write, the lengthening stroke, and alefs that are often written bare.
_ARABIC: dict[int, str | None] = {
    **dict.fromkeys((0x640, *range(0x64B, 0x660), 0x670)),
    **dict.fromkeys((0x622, 0x623, 0x625), "\u0627"),
}

#: A longer token is no word of the lexicon; composing long runs of marks takes quadratic time.
_LONGEST_TOKEN = 64
_SHORT = 3


@dataclass(slots=True)
class Branch:
    """The roles of the words so far, and the words that may follow them in a phrase."""

    roles: int = 0
    following: dict[str, Branch] = field(default_factory=dict)


def normalize_word(token: str) -> str:
    """Return a token as the lexicon spells it: lower case, one spelling for each letter; never empty."""
    if token.isascii():
        return token.lower()
    if len(token) <= _LONGEST_TOKEN:
        token = unicodedata.normalize("NFKC", token)
    word = token.lower().replace("\u2019", "'")
    return word.translate(_ARABIC) or word  # a line that only stretches letters has none


def fold_accents(word: str) -> str:
    """Return a Latin word without accents, for those who write `reponse`; short words keep theirs."""
    if not _SHORT < len(word) <= _LONGEST_TOKEN or not "\u00c0" <= max(word) < "\u0250":
        return word
    return "".join(one for one in unicodedata.normalize("NFD", word) if not unicodedata.combining(one))


@cache
def load_lexicon() -> dict[str, Branch]:
    """Return the tree of all words and phrases, by first word."""
    tree = Branch()
    for roles, phrases in list_words():
        flags = 0
        for role in roles:
            flags |= NAMES[role]
        for phrase in phrases:
            _plant(tree, phrase, flags)
    return tree.following


def list_words() -> Iterator[tuple[list[str], list[str]]]:
    """Yield roles, and the words and phrases that play them, line by line."""
    folder = resources.files(__package__) / "words"
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                roles, _, words = line.partition(": ")
                yield roles.split(), words.split(", ")


def _plant(tree: Branch, phrase: str, flags: int) -> None:
    for words in _spell(phrase):
        branch = tree
        for word in words:
            branch = branch.following.setdefault(word, Branch())
        branch.roles |= flags


def _spell(phrase: str) -> Iterator[list[str]]:
    """Yield the words of a phrase, as written and without accents."""
    if phrase.endswith("'"):
        yield [phrase]
        return
    is_plain = phrase.isascii() and phrase.replace(" ", "").isalpha()
    words = phrase.split() if is_plain else [normalize_word(token) for _, token in split_tokens(phrase)]
    yield words
    plain = words if is_plain else [fold_accents(word) for word in words]
    if plain != words:
        yield plain
