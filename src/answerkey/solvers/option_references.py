"""Options that speak of the other options: by their letters, by their places, or of all of them together.

*Both A and B* and *none of the above* mean something else, or nothing, once the options are moved.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Literal

from answerkey.solvers.reference_phrases import FILLERS, JOINS, PHRASES, REFERRING

Reference = Literal["REFERS_TO_OTHERS", "REFERS_TO_LABELS"]

#: Longer options are sentences of their own; what they speak of is not looked for.
LONGEST = 150

_AROUND = " \t\r\n.,;:!?\"'`()[]{}«»“”„‘’*_。．、，；：！？（）「」『』【】।؟،-–—"  # noqa: RUF001 - the punctuation of many languages
#: Kana, Han and Hangul: words of these may follow a label, and each other, without a space.
_SCRIPTS = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_UNSPACED = re.compile(f"[{_SCRIPTS}]+")
_LEADS = "(?:both|either|neither|options?|choices?|answers?|statements?)"


def find_reference(options: Sequence[str], labels: Sequence[str]) -> Reference | None:
    """Return how some option speaks of the others; None when they can stand in any order.

    `labels` are what the options are called, in their order.
    """
    found = [_read_reference(option, tuple(labels)) for option in options]
    return next((one for one in found if one), None)


def _read_reference(option: str, labels: tuple[str, ...]) -> Reference | None:
    text = " ".join(unicodedata.normalize("NFKC", option).split())
    if not text or len(text) > LONGEST:
        return None
    plain = text.strip(_AROUND).casefold()
    if _compile_phrases().fullmatch(plain):
        return "REFERS_TO_OTHERS"
    return "REFERS_TO_LABELS" if _names_labels(text, plain, labels) else None


def _names_labels(text: str, plain: str, labels: tuple[str, ...]) -> bool:
    """Return whether an option is made of labels and words for them, or has a list of labels in it."""
    whole, inside = _compile_labels(labels)
    if inside.search(text):
        return True
    if not whole.fullmatch(plain):
        return False
    kinds = [match.lastgroup for match in _compile_token(labels).finditer(plain)]
    named = kinds.count("label")
    return named > 1 or (named == 1 and "word" in kinds)


@cache
def _compile_phrases() -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for group in PHRASES.values() for one in group))


@lru_cache(maxsize=256)
def _compile_labels(labels: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what matches an option of labels alone, and what finds a list of labels in a sentence."""
    label = rf"[(\[]?(?:{_spell(labels)})[)\]]?"
    joins = _spell(JOINS)
    inside = rf"(?<!\w)(?i:{_LEADS}) {label}(?:,? (?:{joins}) {label}|, {label})"
    return re.compile(f"(?:{_compile_token(labels).pattern})+"), re.compile(inside + r"(?!\w)")


@lru_cache(maxsize=256)
def _compile_token(labels: tuple[str, ...]) -> re.Pattern[str]:
    """Return what matches a label, a word for labels, or what stands between them; never half a word."""
    names = {"label": labels, "word": REFERRING, "join": JOINS, "filler": FILLERS}
    kinds = [rf"(?P<{kind}>{_spell_bound(words)})" for kind, words in names.items()]
    return re.compile(rf"(?>{'|'.join(kinds)}|(?P<mark>[\s{re.escape(_AROUND)}&+/]))")


def _spell_bound(words: Iterable[str]) -> str:
    """Return words as they must stand: not within others, except in scripts that put no spaces between."""
    folded = [one.casefold() for one in words]
    spaced = [one for one in folded if not _UNSPACED.fullmatch(one)]
    unspaced = [one for one in folded if _UNSPACED.fullmatch(one)]
    bound = rf"(?<![^\W_{_SCRIPTS}])(?:{_spell(spaced)})(?![^\W_{_SCRIPTS}])"
    return f"{bound}|{_spell(unspaced)}" if unspaced else bound


def _spell(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
