"""Laws of cells that hold the options of a row."""

from __future__ import annotations

import pytest

from answerkey.solvers.option_cells import OptionTrouble, read_cell, read_cells

LABELS = ("A", "B", "C")
ORDER = (1, 2, 0)


@pytest.mark.parametrize(
    ("cell", "moved"),
    [
        (["x", "y", "z"], ["y", "z", "x"]),
        ([1, 2.5, "z"], [2.5, "z", 1]),
        ('["x", "y", "ü"]', '["y", "ü", "x"]'),
        ("['x', 'y', 'z']", "['y', 'z', 'x']"),
        ({"A": "x", "B": "y", "C": "z", "D": None}, {"A": "y", "B": "z", "C": "x", "D": None}),
        ({"i": "x", "ii": "y", "iii": "z", "iv": None}, {"i": "y", "ii": "z", "iii": "x", "iv": None}),
        (["A) x", "B) y", "C) z"], ["A) y", "B) z", "C) x"]),
        (["(A) x", "(B) y", "(C) z"], ["(A) y", "(B) z", "(C) x"]),
        (["A. x", "B. y", "z"], ["B. y", "z", "A. x"]),
        (
            [{"label": "A", "text": "x"}, {"label": "B", "text": "y"}, {"label": "C", "text": "z"}],
            [{"label": "A", "text": "y"}, {"label": "B", "text": "z"}, {"label": "C", "text": "x"}],
        ),
    ],
)
def test_a_cell_keeps_its_form_in_another_order(cell: object, moved: object) -> None:
    """Only the options move: what belongs to a place, and how the cell is written, stay."""
    assert read_cell(cell, LABELS).arrange(ORDER) == moved


def test_texts_are_without_labels() -> None:
    """What an option says does not include the label in front of it."""
    assert read_cell(["A) x", "B) y", "C) z"], LABELS).texts == ("x", "y", "z")
    assert read_cell([{"id": "A", "text": "x", "n": 1}], ("A",)).texts == ("x",)


def test_options_may_stand_in_cells_of_their_own() -> None:
    """Cells without a text at the end are options that the row does not have."""
    options = read_cells(["x", "y", "z", None, ""], LABELS)
    assert options.texts == ("x", "y", "z")
    assert options.arrange(ORDER) == ["y", "z", "x", None, ""]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (None, "the options are None, not a list"),
        ("x, y, z", "the options are the text 'x, y, z', not a list"),
        (["x", "y"], "there are 2 options for 3 choices"),
        (["x", None, "z"], "the option None is not text or a number"),
        (["x", True, "z"], "the option True is not text or a number"),
        ([{"n": 1}, {"n": 2}, {"n": 3}], "the options are objects without a text: {'n': 1}"),
    ],
)
def test_what_cannot_be_moved_says_why(cell: object, said: str) -> None:
    """A cell that holds no list of as many texts as choices is the row's trouble."""
    with pytest.raises(OptionTrouble) as caught:
        read_cell(cell, LABELS)
    assert str(caught.value) == said
