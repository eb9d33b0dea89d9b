from __future__ import annotations

import polars as pl
import pytest

from answerkey.scorers import heads
from answerkey.scorers.heads import BeyondHead, Head, HeadReader, Open, Reading, map_distinct


def test_head_shows_what_it_has() -> None:
    """Parts of a head are plain texts."""
    head = Head("abc")
    assert (head[0], head[1:2], head[:3], head[0:0]) == ("a", "b", "abc", "")
    assert not isinstance(head[:2], Head)


@pytest.mark.parametrize(("start", "stop"), [(2, 4), (3, 4), (0, 100)])
def test_looking_beyond_a_head_is_noticed(start: int, stop: int) -> None:
    """A part that would reach beyond the end is refused, since the text may go on."""
    with pytest.raises(BeyondHead) as caught:
        Head("abc")[start:stop]
    assert not caught.value.at_rest


def test_asking_for_all_the_rest_is_told_apart() -> None:
    """A rule that wants the whole text is not served by a longer head."""
    with pytest.raises(BeyondHead) as caught:
        Head("abc")[1:]
    assert caught.value.at_rest
    with pytest.raises(BeyondHead):
        Head("abc")[3]


def test_stripped_head_is_still_a_head() -> None:
    """What stands before the text may be stripped; a head of nothing else cannot tell."""
    stripped = Head("  a").lstrip(" ")
    assert stripped == "a"
    with pytest.raises(BeyondHead):
        stripped[0:2]
    with pytest.raises(BeyondHead):
        Head("   ").lstrip(" ")


def read_to_mark(text: str) -> Reading:
    """Return what stands before the first `!`; `?` at the start asks for the whole text."""
    at = 0
    while text[at : at + 1] not in {"!", ""}:
        at += 1
    return Reading(choice=text[:] if text[0:1] == "?" else text[:at])


def test_texts_are_read_by_heads_as_far_as_those_decide() -> None:
    """Each text has the reading that the rule gives it, or is open: for a longer head, or for good."""
    texts = pl.Series(["a!xyz", "a!", "", "ab", "abcdefgh!", "?!xyz", "abc!zz", "abc!"])
    reader = HeadReader(read_to_mark)
    numbers = reader.read_heads(texts, (2, 4))
    assert reader.look_up(numbers)["choice"].to_list() == ["a", "a", "", "ab", None, None, "abc", "abc"]
    assert reader.find(Open.LONGER, numbers).to_list() == [False] * 4 + [True] + [False] * 3
    assert reader.find(Open.WHOLE, numbers).to_list() == [False] * 5 + [True] + [False] * 2


def test_known_heads_are_not_read_again() -> None:
    """What was read in a head serves further columns; a text of the same letters is another thing."""
    seen: list[str] = []

    def read(text: str) -> Reading:
        seen.append(text)
        return read_to_mark(text)

    reader = HeadReader(read)
    for _ in range(2):
        found = reader.look_up(reader.read_heads(pl.Series(["ab", "abc!", "ab"]), (2, 3)))
        assert found["choice"].to_list() == ["ab", None, "ab"]
    assert sorted(seen) == ["ab", "ab", "abc"]


def test_equal_texts_are_asked_about_once() -> None:
    """A number for each text in its place, found once for each distinct one."""
    asked: list[str] = []

    def measure(text: str) -> int:
        asked.append(text)
        return len(text)

    assert map_distinct(pl.Series(["b", "a", "b", ""]), measure).to_list() == [1, 1, 1, 0]
    assert sorted(asked) == ["", "a", "b"]
    assert map_distinct(pl.Series([], dtype=pl.String), measure).to_list() == []


def test_known_heads_are_forgotten_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the texts of a run, and the readings stay the same."""
    monkeypatch.setattr(heads, "MOST_KNOWN", 2)
    reader = HeadReader(read_to_mark)
    for letter in "abcdef":
        numbers = reader.read_heads(pl.Series([f"{letter}!", f"{letter}x!"]), (4,))
        assert reader.look_up(numbers)["choice"].to_list() == [letter, f"{letter}x"]
        assert len(reader.known[4]) <= 4


def test_the_last_character_of_a_head_is_part_of_it() -> None:
    """Only what comes after it is beyond."""
    assert Head("abc")[2] == "c"


def test_heads_grow_step_by_step_where_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size is tried in turn: a text is decided by the first head that is long enough."""
    monkeypatch.setattr(heads, "FEW_HEADS", 1)
    asked: list[int] = []

    def read(text: str) -> Reading:
        asked.append(len(text))
        return read_to_mark(text)

    reader = HeadReader(read)
    texts = pl.Series(["a!xxxxxxxx", "abc!xxxxxx", "abcde!xxxx", "abcdefg!xx", "abcdefgh!x"])
    numbers = reader.read_heads(texts, (2, 4, 6, 8))
    assert reader.look_up(numbers)["choice"].to_list() == ["a", "abc", "abcde", "abcdefg", None]
    assert sorted(set(asked)) == [2, 4, 6, 8]
