from __future__ import annotations

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


@pytest.mark.parametrize(
    ("row", "options", "labels", "truth"),
    [
        ({"A": "x", "B": "y", "C": "z", "answer": "C"}, ("x", "y", "z"), ("A", "B", "C"), 2),
        ({"question": STEM, "answerKey": "2"}, ("x", "y"), ("1", "2"), 1),
        ({"options": ["(A)x", "(B) y"], "answer": "A"}, ("x", "y"), ("A", "B"), 0),
        (
            {"options": ["A. Lincoln", "G. Marx"], "answer": "A"},
            ("A. Lincoln", "G. Marx"),
            ("A", "B"),
            0,
        ),
        ({"options": ["x", "y"], "answer": None, "label": "B"}, ("x", "y"), ("A", "B"), 1),
        (
            {"choices": ["P", "Q"], "options": ["one", "two"], "answer": "Q"},
            ("one", "two"),
            ("P", "Q"),
            1,
        ),
        ({"choices": ["7", "2", "9"], "answer": "B"}, ("7", "2", "9"), ("A", "B", "C"), 1),
    ],
    ids=[
        "lettered columns",
        "nested",
        "labels taken off",
        "no labels",
        "column of nulls",
        "labels",
        "choices",
    ],
)
def test_parts_are_found_by_their_names(
    row: dict[str, object], options: object, labels: object, truth: int
) -> None:
    """Options may stand in columns of their own, in mappings, or under their labels."""
    result = read_recognised({"question": "q", **row})
    assert (result.text, result.options, result.labels, result.truth) == (
        "q",
        options,
        labels,
        truth,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text\nwith lines\tand tabs", []),
        ("naïve café, 9½ °C, “quoted” — fine", []),
        ("ÆØÅ æøå ÀÉÎ", []),
        ("中文 日本語 한국어 العربية", []),
        ("👩‍👩‍👧 family", []),
        ("éè", []),
        ("ÄÖ", []),
        ("Ãã", []),
        ("привет", []),
        ("lost \ufffd here", ["REPLACEMENT_CHARACTER"]),
        ("fiancÃ©e", ["MOJIBAKE"]),
        ("itâ€™s", ["MOJIBAKE"]),
        ("9Â½ percent", ["MOJIBAKE"]),
        ("Ã¼", ["MOJIBAKE"]),
        ("â‚¬", ["MOJIBAKE"]),
        ("Ð¿Ñ€Ð¸Ð²ÐµÑ‚", ["MOJIBAKE"]),
        ("bell\x07", ["CONTROL_CHARACTER"]),
        ("dash \x80\x94 here", ["CONTROL_CHARACTER"]),
        ("zero\u200bwidth", ["CONTROL_CHARACTER"]),
        ("a &amp; b", ["HTML_ENTITY"]),
        ("it&#39;s &#x27;so&#x27;", ["HTML_ENTITY"]),
        ("AT&T; nothing", []),
        ("\ufffd and &lt;", ["REPLACEMENT_CHARACTER", "HTML_ENTITY"]),
    ],
)
def test_each_kind_of_damage_is_found_once(text: str, expected: list[str]) -> None:
    """Damage is told by kind; texts of any language are no damage."""
    assert list(find_damage(text)) == expected


def test_the_passage_is_shown() -> None:
    """What is to be seen is cut out of a long text."""
    (passage,) = find_damage("x" * 100 + "\ufffd" + "y" * 100).values()
    assert passage == "x" * 12 + "\ufffd" + "y" * 11
