from __future__ import annotations

import pytest

from answerkey.scorers.choices import Choices, Truth, check_truth, parse_choices, parse_truth, read_options
from answerkey.scorers.row_faults import RowFault


def find_fault(value: object) -> RowFault:
    """Return what is wrong with these choices."""
    with pytest.raises(RowFault) as caught:
        parse_choices(value)
    assert caught.value.reason == "BAD_CHOICES"
    return caught.value


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (["A", "B"], ("A", "B")),
        (("A", "B"), ("A", "B")),
        ('["A", "B"]', ("A", "B")),
        ("['A', 'B']", ("A", "B")),
        ([1, 2], ("1", "2")),
        ("[1, 2]", ("1", "2")),
        (["\u0041\u030a"], ("\u00c5",)),
    ],
)
def test_choices_are_read_from_lists_and_texts_of_lists(value: object, names: tuple[str, ...]) -> None:
    """A list, a JSON text and a Python literal give the same choices, in NFC."""
    assert parse_choices(value) == Choices(names)


def test_white_space_is_trimmed_and_told() -> None:
    """Trimmed choices and truths say so, for the warning."""
    assert parse_choices([" A", "B\u200b"]) == Choices(("A", "B"), is_trimmed=True)
    assert parse_truth("B\n") == Truth("B", is_trimmed=True)
    assert parse_truth("B") == Truth("B")


def test_longer_choices_get_the_pages_advice() -> None:
    """A choice of several characters names the scorer to use instead."""
    fault = find_fault(["yes", "no"])
    assert fault.message == "choice 'yes' has more than one character"
    assert fault.hint is not None
    assert "use the scorer `string_equals`" in fault.hint


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "the choices are null"),
        ([], "the list of choices is empty"),
        ("", "the choices are '', not a list"),
        ("ABCD", "the choices are 'ABCD', not a list"),
        (7, "the choices are 7, not a list"),
        ({"A": 1}, "the choices are {'A': 1}, not a list"),
        ("{'A', 'B'}", "not a list"),
        (["A", None], "choice is null"),
        (["A", " "], "choice is empty"),
        ([True, False], "choice True is true/false, not text or an integer"),
        ([1.0], "choice 1.0 is a number with decimals, not text or an integer"),
        ("[1.0, NaN]", "choice 1.0 is a number with decimals"),
        ([["A"]], "choice ['A'] is a nested value, not text or an integer"),
        ([b"A"], "choice b'A' is a bytes, not text or an integer"),
        (["A", "B", "A"], "choice 'A' appears twice in ['A', 'B', 'A']"),
        ([10], "choice '10' has more than one character"),
        (["x" * 500], "has more than one character"),
        (["a" + "\u0301" * 40], "has more than one character"),
        ("[" * 5000, "not a list"),
        ("[" + "1," * 200_000 + "]", "not a list"),
        ("['A' + 'B']", "not a list"),
        ("[__import__('os')]", "not a list"),
    ],
)
def test_unsuitable_choices_are_refused(value: object, message: str) -> None:
    """What is no list of distinct single characters is refused with the value at fault."""
    fault = find_fault(value)
    assert message in fault.message
    assert len(fault.message) < 300


def test_escapes_in_a_literal_stay_silent() -> None:
    """A Python literal with a doubtful escape is refused for its length; Python's warning is not shown."""
    assert find_fault(r"['\d', 'A']").message == r"choice '\\d' has more than one character"


@pytest.mark.parametrize("value", [None, "", "  ", "AB", True, 1.0, ["A"], {"A": 1}])
def test_unsuitable_truths_are_refused(value: object) -> None:
    """A ground truth is one character: no null, no true/false, no decimals, nothing nested."""
    with pytest.raises(RowFault) as caught:
        parse_truth(value)
    assert caught.value.reason == "BAD_TRUTH"


def test_truth_must_be_among_the_choices() -> None:
    """The error names the truth and the choices."""
    check_truth("A", ("A", "B"))
    with pytest.raises(RowFault, match=r"^ground truth 'E' is not among the choices \['A', 'B'\]$"):
        check_truth("E", ("A", "B"))


def test_options_are_lists_of_texts_or_nothing() -> None:
    """Option texts come from a list or the text of a list; anything else is no list of options."""
    assert read_options(["Paris", 7, None]) == ("Paris", "7", "")
    assert read_options('["Paris", "Lyon"]') == ("Paris", "Lyon")
    assert read_options("Paris") is None
    assert read_options(None) is None


def test_what_is_no_list_is_shown() -> None:
    """Null by its name, anything else as it is written."""
    for value, message in ((None, "the choices are null"), (3, "the choices are 3, not a list")):
        with pytest.raises(RowFault) as caught:
            parse_choices(value)
        assert (caught.value.reason, caught.value.message) == ("BAD_CHOICES", message)


def test_truths_are_called_by_their_name() -> None:
    """In the message of every fault."""
    for value in (None, "", "AB"):
        with pytest.raises(RowFault) as caught:
            parse_truth(value)
        assert caught.value.message.startswith("ground truth ")
