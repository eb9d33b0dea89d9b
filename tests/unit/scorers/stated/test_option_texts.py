from __future__ import annotations

import pytest

from answerkey.scorers.stated.labels import read_labels
from answerkey.scorers.stated.option_texts import NO_TEXTS, read_texts
from answerkey.scorers.stated.units import split_units

LABELS = read_labels(("A", "B", "C", "D"))


def find(text: str, options: tuple[str, ...]) -> tuple[str | None, str] | None:
    """Return the choice whose text begins the completion, and the passage."""
    units = split_units(text, LABELS)
    found = read_texts(options, LABELS).find(units, 0)
    return None if found is None else (found.choice, text[: units.ends[found.end - 1]])


@pytest.mark.parametrize(
    ("text", "options", "found"),
    [
        ("red and blue", ("red", "red and blue"), ("B", "red and blue")),
        ("red wine", ("red", "red and blue"), ("A", "red")),
        ("RED", ("red",), ("A", "RED")),
        ("**red** and **blue**", ("red and blue",), None),
        ("red** and **blue", ("red and blue",), ("A", "red** and **blue")),
        ("anther", ("The sepal", "The anther"), ("B", "anther")),
        ("the anther", ("The sepal", "The anther"), ("B", "the anther")),
        ("Paris", ("(A) Paris", "(B) Rome"), ("A", "Paris")),
        ("Paris", ("A. Paris", "B. Rome"), ("A", "Paris")),
        ("same", ("same", "same"), (None, "same")),
        ("none of the above", ("x", "None of the above."), ("B", "none of the above")),
        ("4.5", ("4", "4.5"), ("B", "4.5")),
        ("Parisian", ("Paris",), None),
        ("", ("Paris",), None),
        ("Paris", ("", "Paris"), ("B", "Paris")),
        ("堪培拉。", ("悉尼", "堪培拉"), ("B", "堪培拉")),
        ("averyveryverylongword", ("averyveryverylongword",), ("A", "averyveryverylongword")),
    ],
)
def test_longest_full_text_is_found(
    text: str, options: tuple[str, ...], found: tuple[str | None, str] | None
) -> None:
    """Case, emphasis within, an article before it and the option's own label make no difference."""
    assert find(text, options) == found


def test_texts_go_with_the_choices_in_order() -> None:
    """More texts than choices are ignored; without texts there is nothing to find."""
    assert find("six", ("one", "two", "three", "four", "six")) is None
    assert read_texts(None, LABELS) is NO_TEXTS
    assert read_texts((), LABELS) is NO_TEXTS


@pytest.mark.parametrize(
    ("text", "options", "found"),
    [
        ("red", ("red wine", "blue"), None),
        ("red beer", ("red wine", "red beer", "red"), ("B", "red beer")),
        ("A", ("A.", "B."), ("A", "A")),
        ("B. Paris", ("B. Paris", "x"), ("A", "B. Paris")),
        ("Paris", ("B. Paris", "x"), None),
        ("x", ("((A) x", "y"), ("A", "x")),
        ("red _**_ wine", ("red wine",), ("A", "red _**_ wine")),
        ("red *_*_*_ wine", ("red wine",), None),
        ("  wine", ("\n wine\n",), ("A", "  wine")),
        ("the", ("the", "an x"), ("A", "the")),
        ("x", ("x", "an x"), ("A", "x")),
        ("?", (".", "?"), ("B", "?")),
        ("?!", ("!", "?!"), ("B", "?")),
        ("Paris", (" " * 70 + "Paris",), ("A", "Paris")),
        ("Paris", ("Ｐａｒｉｓ", "Rome"), ("A", "Paris")),
        ("red * _ * wine", ("red wine",), ("A", "red * _ * wine")),
        ("red * _ * _ wine", ("red wine",), None),
    ],
)
def test_parts_of_a_text_are_not_the_text(
    text: str, options: tuple[str, ...], found: tuple[str | None, str] | None
) -> None:
    """All words have to be there, without much between them; only the option's own label is left away."""
    assert find(text, options) == found
