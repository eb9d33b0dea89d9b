from __future__ import annotations

from answerkey.scorers.stated.labels import read_labels
from answerkey.scorers.stated.roles import ANSWER, BE, FIX, PICK
from answerkey.scorers.stated.units import BREAK, split_units

LABELS = read_labels(("A", "B", "C"))


def test_units_are_words_and_phrases() -> None:
    """A phrase is one unit, with its own roles and no word."""
    units = split_units("I'd go with B", LABELS)
    assert units.words == ["i'd", "", "b"]
    assert units.roles[1] == PICK
    assert units.labels == [None, None, "B"]
    assert [units.token(at) for at in range(units.size)] == ["I'd", "go with", "B"]


def test_places_lead_back_into_the_text() -> None:
    """The start and the end of each unit are those of its text, phrases included."""
    text = "  On second thought,\n**B** it is"
    units = split_units(text, LABELS)
    assert [text[units.start(at) : units.ends[at]] for at in range(units.size)] == [
        "On second thought", ",", "\n", "**", "B", "**", "it is",
    ]  # fmt: skip
    assert units.roles[0] & FIX
    assert [units.places[at] for at in range(units.size)] == [0, 3, 4, 5, 6, 7, 8]


def test_line_breaks_are_alike() -> None:
    """Whatever breaks the line is a break."""
    assert split_units("a\r\nb\u2028c\x0bd", LABELS).words == ["a", BREAK, "b", BREAK, "c", BREAK, "d"]


def test_endings_belong_to_labels() -> None:
    """Korean and Turkish endings leave a label a label."""
    assert split_units("B'dir", LABELS).labels == ["B"]
    assert split_units("나입니다", read_labels(("가", "나"))).labels == ["나"]
    assert split_units("가입니다", read_labels(("가", "나"))).labels == ["가"]
    assert split_units("나라", read_labels(("가", "나"))).labels == [None]
    assert split_units("나정답", read_labels(("가", "나"))).labels == [None]


def test_labels_have_eight_characters_at_most() -> None:
    """Longer words beyond ASCII are no labels."""
    assert split_units("réponses", read_labels(("réponses", "x"))).labels == ["réponses"]
    assert split_units("réponsesx", read_labels(("réponsesx", "x"))).labels == [None]


def test_words_of_any_language_have_roles() -> None:
    """Accents may be missing, and words may touch."""
    assert split_units("la reponse est", LABELS).roles[1:] == [ANSWER, BE]
    assert split_units("la rèponse est", LABELS).roles[1:] == [ANSWER, BE]
    assert split_units("答案是B", LABELS).labels == [None, None, "B"]


def test_a_word_that_is_nothing_but_a_stretched_line_is_a_word() -> None:
    """The Arabic tatweel stretches letters; alone it is no label, and no phrase."""
    units = split_units("\u0640 B", LABELS)
    assert units.words == ["\u0640", "b"]
    assert units.labels == [None, "B"]
