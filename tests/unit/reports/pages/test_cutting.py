from __future__ import annotations

import pytest

from answerkey.reports.pages.cutting import cut, cut_middle


def test_short_texts_stay_as_they_are() -> None:
    """And so does nothing."""
    assert cut("x" * 20_000) == "x" * 20_000
    assert cut(None) is None
    assert cut_middle("short").text == "short"
    assert cut_middle(None).move((1, 2)) == (1, 2)


@pytest.mark.parametrize(
    ("begin", "is_kept"),
    [
        (0, True),
        (39_990, True),
        (39_995, False),
        (50_000, False),
        (79_999, False),
        (80_000, True),
        (99_990, True),
    ],
)
def test_a_passage_is_found_again_unless_it_was_cut(*, begin: int, is_kept: bool) -> None:
    """Where it is kept, the same characters stand at its new place."""
    text = "".join(chr(0x4E00 + number % 20_000) for number in range(100_000))
    shown = cut_middle(text)
    assert shown.text is not None
    assert "[cut: 40,000 of 100,000 characters are left out here]" in shown.text
    moved = shown.move((begin, begin + 10))
    assert (moved is not None) is is_kept
    if moved is not None:
        assert shown.text[moved[0] : moved[1]] == text[begin : begin + 10]
