from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from answerkey.dataset_audit.questions import (
    AuditedQuestion,
    find_damage,
    read_questions,
    recognise_fields,
)
from answerkey.datasets.tables import load_rows


def read_recognised(row: dict[str, Any]) -> AuditedQuestion:
    """Return the question of a row whose parts are recognised."""
    samples = load_rows([row], name="rows").samples
    (question,) = read_questions(samples, recognise_fields(samples, {}))
    return question


STEM = {"stem": "q", "choices": [{"text": "x", "label": "1"}, {"text": "y", "label": "2"}]}
NAMES = ["A. Lincoln", "G. Marx"]
PARTS: dict[str, tuple[dict[str, Any], Sequence[str], str, int]] = {
    "lettered columns": ({"A": "x", "B": "y", "C": "z", "answer": "C"}, "xyz", "ABC", 2),
    "nested": ({"question": STEM, "answerKey": "2"}, "xy", "12", 1),
    "labels taken off": ({"options": ["(A)x", "(B) y"], "answer": "A"}, "xy", "AB", 0),
    "no labels": ({"options": NAMES, "answer": "A"}, NAMES, "AB", 0),
    "column of nulls": ({"options": ["x", "y"], "answer": None, "label": "B"}, "xy", "AB", 1),
    "labels": ({"choices": ["P", "Q"], "options": NAMES, "answer": "Q"}, NAMES, "PQ", 1),
    "choices": ({"choices": ["7", "2", "9"], "answer": "B"}, "729", "ABC", 1),
}


@pytest.mark.parametrize("case", PARTS)
def test_parts_are_found_by_their_names(case: str) -> None:
    """Options may be in columns of their own, in mappings, or under their labels."""
    row, options, labels, truth = PARTS[case]
    result = read_recognised({"question": "q", **row})
    assert (result.text, result.truth) == ("q", truth)
    assert (result.options, result.labels) == (tuple(options), tuple(labels))


SOUND = ["plain text\nwith lines\tand tabs", "naïve café, 9½ °C, “quoted” — fine", "ÆØÅ æøå ÀÉÎ"]
SOUND += [
    "中文 日本語 한국어 العربية",
    "👩‍👩‍👧 family",
    "éè",
    "ÄÖ",
    "Ãã",
    "привет",
    "AT&T; nothing",
]
DAMAGED = {
    "REPLACEMENT_CHARACTER": ["lost \ufffd here"],
    "MOJIBAKE": ["fiancÃ©e", "itâ€™s", "9Â½ percent", "Ã¼", "â‚¬", "Ð¿Ñ€Ð¸Ð²ÐµÑ‚"],
    "CONTROL_CHARACTER": ["bell\x07", "dash \x80\x94 here", "zero\u200bwidth"],
    "HTML_ENTITY": ["a &amp; b", "it&#39;s &#x27;so&#x27;"],
    "REPLACEMENT_CHARACTER HTML_ENTITY": ["\ufffd and &lt;"],
}


@pytest.mark.parametrize(("kinds", "texts"), [("", SOUND), *DAMAGED.items()])
def test_each_kind_of_damage_is_found_once(kinds: str, texts: list[str]) -> None:
    """Damage is reported by kind; text in any language is not damage."""
    for text in texts:
        assert list(find_damage(text)) == kinds.split(), text


def test_the_passage_is_shown() -> None:
    """What is to be seen is cut out of a long text."""
    (passage,) = find_damage("x" * 100 + "\ufffd" + "y" * 100).values()
    assert passage == "x" * 12 + "\ufffd" + "y" * 11
