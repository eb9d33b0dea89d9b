"""JSON inside an input, changed as JSON: some value becomes another, so that the rest of it is
still read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random

#: What stands where something else was expected.
ODD_VALUES: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, 10**18, 1 << 63, -(10**400), "", " ", "A", "B",
    "0",
    "1e999", "nan", "\ud800", "\x00\x1b[2J", "\u202e", "{{ 7 * 7 }}", "<< config.x >>", "../../x",
    "x" * 3_000, [], {}, [[]], [None], ["A", "B"], {"": ""}, {"content": None}, {"role": "user"},
    {"a": {"a": {"a": []}}},
)  # fmt: skip
_BEGIN = re.compile(r"(?:^|\n|[\x00-\x0f])\s*([\[{])")
_DECODER = json.JSONDecoder()
Holder = dict[str, object] | list[object]


def change_json(raw: bytes, random: Random) -> bytes:
    """Return an input with some values of one of its JSON texts changed.

    As it is when it has none.
    """
    text = raw.decode("utf-8", "surrogateescape")
    result = list(_find_json(text))
    if not result:
        return raw
    begin, end, value = random.choice(result)
    holders = list(_list_holders(value))
    for _ in range(random.randint(1, 3)):
        _change(random.choice(holders), holders, random)
    written = json.dumps(value, ensure_ascii=random.random() < 0.5, allow_nan=True)
    return (text[:begin] + written + text[end:]).encode("utf-8", "surrogatepass")


def _find_json(text: str) -> Iterator[tuple[int, int, Holder]]:
    """Yield where JSON objects and lists that begin a line stand, and what they hold."""
    position = 0
    while begin := _BEGIN.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, begin.start(1))
        except (ValueError, RecursionError):
            position = begin.end()
            continue
        yield begin.start(1), position, value


def _list_holders(value: object) -> Iterator[Holder]:
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _list_holders(inner)


def _change(holder: Holder, holders: list[Holder], random: Random) -> None:
    """Change one entry: another value, one from elsewhere, a missing one, or one more."""
    odd = random.choice([*ODD_VALUES, *random.sample(holders, min(3, len(holders)))])
    odd = json.loads(json.dumps(odd))  # a copy: a value must not hold itself
    way = random.randrange(8) if holder else 0
    if isinstance(holder, dict):
        key = random.choice(("id", "content", "error", "x", "") if way == 0 else list(holder))
        holder[key] = odd
        if way == 1:
            del holder[key]
    else:
        place = random.randrange(len(holder)) if way else len(holder)
        holder[place : place + 1] = [] if way == 1 else [odd]
