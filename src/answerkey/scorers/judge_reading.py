"""Reading what a judge says: the one score it names, or why there is none; never a guess."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

SCORE, REASONING, CONFIDENCE = "score", "reasoning", "confidence"
#: What a judge is asked for where the endpoint can be asked for a shape; it gives reasons before it decides.
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        REASONING: {"type": "string"},
        SCORE: {"type": "number"},
        CONFIDENCE: {"type": "number"},
    },
    "required": [REASONING, SCORE, CONFIDENCE],
    "additionalProperties": False,
}
_THOUGHTS = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.DOTALL)
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_SHOWN = 80
#: A judge that goes on for longer than this is not read to the end in every way.
_LONGEST_LITERAL = 20_000
_MOST_OBJECTS = 1_000


@dataclass(frozen=True)
class Scale:
    """The scores that a judge may give."""

    low: float = 0.0
    high: float = 1.0

    def normalise(self, score: float) -> float:
        """Return the score's place between the ends of the scale: from 0 to 1."""
        return (score - self.low) / (self.high - self.low)

    @cached_property
    def words(self) -> str:
        """The scale as the judge is told it."""
        return f"from {self.low:.15g} to {self.high:.15g}"


@dataclass(frozen=True)
class Verdict:
    """What a judge said, on its own scale."""

    score: float
    reasoning: str | None = None
    confidence: float | None = None


class UnreadableVerdict(Exception):  # noqa: N818 - it becomes a FAILED score, never an error of a run
    """A judge's text that names no score, or more than one; the message says which."""


def read_verdict(text: str, scale: Scale) -> Verdict:
    """Return the verdict that a judge's text holds; raise UnreadableVerdict.

    It is a JSON object with a `score`, bare, in a code fence or with prose around it; a Python literal will
    do. A text that is nothing but a number is a score too. Several objects must agree on the score. A score
    outside the scale is not moved into it.
    """
    text = _THOUGHTS.sub("", text).strip()
    if not text:
        raise UnreadableVerdict("the reply is empty")
    found = [_read_fields(pairs, scale) for pairs in _find_objects(text)]
    if not found:
        return Verdict(_read_score(_read_number(text), scale))
    if len({one.score for one in found}) > 1:
        raise UnreadableVerdict("the reply names several scores: " + _list_scores(found))
    return max(found, key=lambda one: (one.reasoning is not None, one.confidence is not None))


Pairs = Sequence[tuple[str, object]]


def _find_objects(text: str) -> list[Pairs]:
    """Return the objects in a text that have a score: strict JSON if there is any, else Python literals."""
    found = list(_find_json(text))
    if found:
        return found
    whole = text[text.find("{") : text.rfind("}") + 1]
    pieces = [*(match.group(1) for match in _FENCE.finditer(text)), whole]
    return [pairs for piece in dict.fromkeys(pieces) if (pairs := _read_literal(piece.strip()))]


class _Object(list[tuple[str, object]]):
    """The pairs of a JSON object, also those with the same name."""


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, strict=False)


def _find_json(text: str) -> Iterator[Pairs]:
    position = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if position < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            # An object without a score may hold one that has it.
            has_score = _has_score(value)
            end = end if has_score else position + 1
            yield from [value] if has_score else []
        position = text.find("{", end)


def _read_literal(piece: str) -> Pairs | None:
    """Return the pairs of a dict written in Python: single quotes, a comma too many."""
    if len(piece) > _LONGEST_LITERAL or not piece.startswith("{"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(piece, mode="eval").body
        if not isinstance(tree, ast.Dict) or None in tree.keys:
            return None
        names = [ast.literal_eval(key) for key in tree.keys if key is not None]
        values = [ast.literal_eval(value) for value in tree.values]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    pairs = _Object((str(name), value) for name, value in zip(names, values, strict=True))
    return pairs if _has_score(pairs) else None


def _has_score(pairs: Pairs) -> bool:
    return any(_fold(name) == SCORE for name, _ in pairs)


def _fold(name: str) -> str:
    return name.strip().lower()


def _read_fields(pairs: Pairs, scale: Scale) -> Verdict:
    scores = {_read_score(value, scale) for name, value in pairs if _fold(name) == SCORE}
    if len(scores) > 1:
        raise UnreadableVerdict("the reply names several scores in one object")
    fields = {_fold(name): value for name, value in pairs}
    reasoning = fields.get(REASONING)
    return Verdict(
        scores.pop(),
        None if reasoning is None else _write_text(reasoning),
        _read_confidence(fields.get(CONFIDENCE)),
    )


def _read_score(value: object, scale: Scale) -> float:
    number = _to_number(value)
    if number is None:
        raise UnreadableVerdict(f"the score is {_show(value)}, not a number")
    if not scale.low <= number <= scale.high:
        raise UnreadableVerdict(f"the score is {number:.15g}, and the scale goes {scale.words}")
    return number


def _read_number(text: str) -> float:
    number = _to_number(text)
    if number is None:
        raise UnreadableVerdict(f"the reply has no JSON object with a `score`: {_show(text)}")
    return number


def _read_confidence(value: object) -> float | None:
    """Return a confidence from 0 to 1; anything else is not kept."""
    number = _to_number(value)
    return number if number is not None and 0 <= number <= 1 else None


def _to_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _write_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _list_scores(found: Sequence[Verdict]) -> str:
    return ", ".join(f"{score:.15g}" for score in dict.fromkeys(one.score for one in found))


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
