from __future__ import annotations

import pytest

from answerkey.dataset_audit.questions import find_damage


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text\nwith lines\tand tabs", []),
        ("naïve café, 9½ °C, “quoted” — fine", []),
        ("ÆØÅ æøå ÀÉÎ", []),
        ("中文 日本語 한국어 العربية", []),
        ("👩‍👩‍👧 family", []),
        ("lost \ufffd here", ["REPLACEMENT_CHARACTER"]),
        ("fiancÃ©e", ["MOJIBAKE"]),
        ("itâ€™s", ["MOJIBAKE"]),
        ("9Â½ percent", ["MOJIBAKE"]),
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
    assert [kind for kind, _ in find_damage(text)] == expected


def test_the_passage_is_shown() -> None:
    """What is to be seen is cut out of a long text."""
    ((_, passage),) = find_damage("x" * 100 + "\ufffd" + "y" * 100)
    assert passage == "x" * 12 + "\ufffd" + "y" * 11


@pytest.mark.parametrize("text", ["Ã¼", "â‚¬", "Ð¿Ñ€Ð¸Ð²ÐµÑ‚"])
def test_mojibake_is_what_utf_8_reads(text: str) -> None:
    """Characters that are the bytes of other characters are mojibake."""
    assert [kind for kind, _ in find_damage(text)] == ["MOJIBAKE"]


@pytest.mark.parametrize("text", ["éè", "ÄÖ", "Ãã", "привет", "“”"])
def test_other_runs_are_not(text: str) -> None:
    """Characters beyond ASCII that belong together are not."""
    assert list(find_damage(text)) == []
