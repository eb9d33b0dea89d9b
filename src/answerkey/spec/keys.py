"""Keys that are unique among their neighbours: given ones are checked, missing ones are numbered."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.errors import Place
from answerkey.spec.findings import Findings


def assign_keys(
    wanted: Sequence[tuple[str | None, str, Place]], findings: Findings, *, what: str, within: str
) -> list[str]:
    """Return a key for each `(given key, default, place)`; a given key that appears twice is reported (E114).

    A default that is taken is numbered: `-2`, `-3`, ….
    """
    taken: set[str] = set()
    for given, _, place in wanted:
        if given is not None and given in taken:
            message = f"{what} key `{given}` is used twice {within}"
            findings.add("E114", message, place, "give each its own `key`")
        if given is not None:
            taken.add(given)
    keys = []
    for given, default, _ in wanted:
        key = given if given is not None else _number(default, taken)
        taken.add(key)
        keys.append(key)
    return keys


def _number(default: str, taken: set[str]) -> str:
    key, number = default, 1
    while key in taken:
        number += 1
        key = f"{default}-{number}"
    return key
