"""The extraction rule `{pattern: …}`: a regular expression of the user's own, matched in linear time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import polars as pl

from answerkey.errors import SpecError
from answerkey.scorers.characters import WHITE_SPACE, compose, strip_white_space
from answerkey.scorers.heads import Reading

_HINT = "write it in RE2 syntax, with one group around the choice: `answer is \\(?([A-D])\\)?`"


def check_pattern(pattern: object) -> str:
    """Return the pattern, or raise a SpecError if it is none with exactly one group."""
    if not isinstance(pattern, str):
        raise SpecError("E108", f"`pattern` must be text, not {pattern!r}", hint=_HINT)
    try:
        groups = pl.select(pl.lit("").str.extract_groups(pattern)).to_series().struct.fields
    except pl.exceptions.ComputeError as error:
        why = str(error).rstrip().splitlines()[-1].removeprefix("error: ").removeprefix("regex error: ")
        raise SpecError(
            "E108", f"`pattern` {pattern!r} is not a regular expression: {why}", hint=_HINT
        ) from None
    if len(groups) != 1:
        message = f"`pattern` {pattern!r} has {len(groups)} groups, and needs exactly one"
        raise SpecError("E108", message, hint=f"{_HINT}; further brackets are written `(?:…)`")
    return pattern


def read_pattern(text: str, choices: Sequence[str], pattern: str) -> Reading:
    """Return the choice that the first match names, or why there is none."""
    # A lone surrogate is no text that Polars holds; it is replaced by one character, so that places stay.
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return next(iter(match_all(pl.Series([plain]), choices, pattern)))


def match_all(texts: pl.Series, choices: Sequence[str], pattern: str) -> list[Reading]:
    """Return the readings of a column of texts."""
    text = pl.col("text")
    matches = pl.DataFrame({"text": texts}).select(
        "text",
        whole=text.str.extract(pattern, 0),
        group=text.str.extract(pattern, 1),
        offset=text.str.find(pattern),
    )
    return [_read_match(*row, choices=tuple(choices)) for row in matches.iter_rows()]


def _read_match(
    text: str, whole: str | None, group: str | None, offset: int | None, *, choices: tuple[str, ...]
) -> Reading:
    if not text.strip(WHITE_SPACE):
        return Reading(reason="EMPTY")
    if whole is None or group is None or offset is None:
        return Reading(reason="NOTHING_STATED")
    begin = offset if text.isascii() else len(text.encode()[:offset].decode())
    span = (begin, begin + len(whole))
    choice = _find_choice(strip_white_space(group), choices)
    return Reading(choice, None if choice else "NOT_A_CHOICE", None, span)


def _find_choice(name: str, choices: tuple[str, ...]) -> str | None:
    """Return the choice with this name; in any case, when no two choices differ only by case."""
    name = compose(name)
    return name if name in choices else _fold(choices).get(name.lower())


@lru_cache(maxsize=256)
def _fold(choices: tuple[str, ...]) -> dict[str, str]:
    folded = {choice.lower(): choice for choice in choices}
    return folded if len(folded) == len(choices) else {}
