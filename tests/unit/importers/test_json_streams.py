from __future__ import annotations

import io
import json

import pytest

from answerkey.importers.logs import DamagedError, JsonStream, parse_json


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a few characters at a time, so that every value is cut somewhere."""
    monkeypatch.setattr("answerkey.importers.logs._BLOCK", 7)


def read(text: str, *path: str) -> list[tuple[str, object]]:
    """Return the elements to which a path leads."""
    return list(JsonStream(io.StringIO(text)).elements(*path))


@pytest.mark.parametrize("indent", [None, 2])
def test_a_list_comes_element_by_element(indent: int | None) -> None:
    """Whatever white space stands between, and wherever a block ends."""
    values = [{"a": [1, 2.5, 'text with \\ and " and ]']}, 12345678901, "x" * 40, None, True, [], {}]
    found = read(json.dumps(values, indent=indent))
    assert found == [(str(place), value) for place, value in enumerate(values)]


def test_a_path_leads_into_objects_and_what_is_beside_it_can_be_kept() -> None:
    """Of what stands beside, only what was asked for stays in memory."""
    text = json.dumps(
        {"head": {"n": 1}, "other": [[1], {"x": [2]}], "results": {"v": 3, "rows": [4, 5]}, "z": 6}
    )
    stream = JsonStream(io.StringIO(text))
    assert list(stream.elements("results", "rows", kept=("head", "results/v", "z"))) == [("0", 4), ("1", 5)]
    assert stream.rest == {"head": {"n": 1}, "results/v": 3, "z": 6}


def test_the_values_of_an_object_come_by_their_keys() -> None:
    """As they stand."""
    assert read('{"1": {"a": 1}, "0": 2}') == [("1", {"a": 1}), ("0", 2)]


def test_a_path_that_leads_nowhere_has_no_elements() -> None:
    """Neither a key that is not there, nor a value that is no object."""
    assert read('{"a": [1]}', "b") == []
    assert read('{"a": [1]}', "a", "b") == []


def test_the_line_of_an_element_is_known() -> None:
    """It is the one on which the element ends."""
    stream = JsonStream(io.StringIO('[\n{"a":\n1},\n\n{"b": 2}\n]'))
    assert [(stream.line, value) for _, value in stream.elements()] == [(3, {"a": 1}), (5, {"b": 2})]


def test_numbers_that_json_does_not_have_are_null() -> None:
    """Other tools write them."""
    assert parse_json("[NaN, Infinity, -Infinity, 1]") == [None, None, None, 1]
    assert read("[NaN, 1]") == [("0", None), ("1", 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2", "not valid JSON at the end: expecting `,`"),
        ('[{"a": 1}\n{"b": 2}]', "not valid JSON on line 2: expecting `,`"),
        ('[{"a": tru}]', "not valid JSON on line 1: expecting value"),
        ("[1] 2", "extra text after the end"),
        ('[{"a": "never', "unterminated string"),
        ("[" * 100_000, "nested too deeply"),
        ("[1" + "0" * 5_000 + "]", "a number has too many digits"),
    ],
)
def test_a_text_that_breaks_off_is_damaged(text: str, message: str) -> None:
    """The message says where and why."""
    with pytest.raises(DamagedError, match=message):
        read(text)


def test_elements_before_the_damage_are_there() -> None:
    """A log that was cut off is read as far as it goes."""
    stream = JsonStream(io.StringIO('[{"a": 1}, {"b": 2}, {"c'))
    found: list[object] = []
    with pytest.raises(DamagedError):
        found.extend(value for _, value in stream.elements())
    assert found == [{"a": 1}, {"b": 2}]


def test_an_element_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file makes the window grow without end."""
    monkeypatch.setattr("answerkey.importers.logs.MOST_CHARACTERS", 100)
    with pytest.raises(DamagedError, match="an element has more than 100 characters"):
        read(json.dumps(["x" * 1_000]))
