from __future__ import annotations

import pytest

from answerkey.scorers.stated.labels import read_labels
from answerkey.scorers.stated.lexicon import normalize_word


@pytest.mark.parametrize(
    ("choices", "token", "found"),
    [
        ("ABCD", "b", "B"),
        ("ABCD", "Ｂ", "B"),
        ("ABCD", "𝐁", "B"),
        ("ABCD", "Ⓑ", "B"),
        ("ABCD", "E", None),
        ("ABCD", "B\u0301", None),
        ("ABCD", "Β", None),  # Greek
        ("aBb", "B", "B"),
        ("aBb", "b", "b"),
        ("aBb", "A", None),
        ("1234", "②", "2"),
        ("1234", "٢", "2"),
        ("1234", "2\ufe0f\u20e3", "2"),
        ("①②", "2", "②"),
        ("⑴⑵", "2", "⑵"),
        ("ⅠⅡⅢ", "ii", "Ⅱ"),
        ("أبجد", "ا", "أ"),
        ("ÄÖ", "A\u0308", "Ä"),
        ("1①", "1", "1"),
        ("1①", "①", "①"),
    ],
)
def test_labels_are_read_as_freely_as_keeps_them_apart(choices: str, token: str, found: str | None) -> None:
    """Case and typography are ignored unless two choices differ by nothing else."""
    assert read_labels(tuple(choices)).find(token, normalize_word(token)) == found


def test_label_that_is_not_offered_is_recognized() -> None:
    """A letter of the same kind looks like a label; other signs do not."""
    labels = read_labels(("A", "B"))
    assert [labels.resembles(token) for token in ("E", "e", "5", "Б", "Ex", ".")] == [True, *[False] * 5]


@pytest.mark.parametrize(
    ("choices", "token", "found"),
    [
        (("q", "Q", "w"), "Q", "Q"),
        (("q", "Q", "w"), "W", None),
        (("k", "K", "Ｋ"), "K", "K"),
        (("k", "K", "Ｋ"), "Ｋ", "Ｋ"),
        (("definitely", "hardly"), "Definitely", "definitely"),
        (("réponses", "x"), "RÉPONSES", "réponses"),
        (("réponsesx", "x"), "réponsesx", None),
    ],
)
def test_labels_that_differ_by_little_are_read_as_written(
    choices: tuple[str, ...], token: str, found: str | None
) -> None:
    """Case and width count where they tell choices apart; beyond ASCII eight characters are the most."""
    assert read_labels.__wrapped__(choices).find(token, normalize_word(token)) == found
