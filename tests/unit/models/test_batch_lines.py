"""The laws of a batch's files: any line can be read, and every call has its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerkey.models.batch import BatchLimits, Written, cut_files, read_lines, write_line
from answerkey.models.calls import Call
from answerkey.models.providers import OPENAI_CHAT, Connection
from answerkey.types import Completion, CompletionStatus

CONNECTION = Connection("m", OPENAI_CHAT, "http://127.0.0.1:9/v1/chat/completions", "m")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.fixed_dictionaries({"choices": VALUES | st.lists(st.fixed_dictionaries({"message": VALUES}))})


@given(st.binary())
def test_any_bytes_can_be_read(content: bytes) -> None:
    """Whatever is downloaded, nothing is raised."""
    assert all(isinstance(one, Completion) for _, one in read_lines(content, CONNECTION))


@given(VALUES, VALUES | BODIES, VALUES)
def test_any_line_of_a_call_is_a_completion(status: object, body: object, error: object) -> None:
    """A line that names its call becomes one completion; with an error, it has the status ERROR."""
    line = {"custom_id": "a", "response": {"status_code": status, "body": body}, "error": error}
    ((key, completion),) = read_lines(json.dumps(line).encode() + b"\n", CONNECTION)
    assert key == "a"
    if error:
        assert completion.status is CompletionStatus.ERROR
    assert (completion.text is None) == (completion.status is not CompletionStatus.OK)


@given(st.lists(st.text(max_size=30), max_size=20), st.integers(1, 5), st.integers(1, 400))
def test_files_hold_every_line_once(texts: list[str], calls: int, size: int) -> None:
    """In order, within the limits; only a line that is too large for any file is alone in one."""
    asked = [
        Call(f"k{number}", "1", 0, [{"role": "user", "content": text}]) for number, text in enumerate(texts)
    ]
    lines = [one for call in asked if isinstance(one := write_line(CONNECTION, call), Written)]
    files = list(cut_files(lines, BatchLimits(max_calls=calls, max_bytes=size)))
    assert [one for file in files for one in file] == lines
    assert all(0 < len(file) <= calls for file in files)
    assert all(len(file) == 1 or sum(len(one.line) for one in file) <= size for file in files)


def test_a_text_never_breaks_a_line() -> None:
    """Line breaks and their many relatives are escaped, half a surrogate pair as well."""
    written = write_line(
        CONNECTION, Call("a", "1", 0, [{"role": "user", "content": "1\n2\r3\u20284\x855\ud800"}])
    )
    assert isinstance(written, Written)
    assert len(written.line.splitlines()) == 1
    assert written.line.isascii()


@pytest.mark.parametrize("depth", [10, 900, 10**5])
def test_no_depth_of_an_answer_raises(depth: int) -> None:
    """A line that cannot be parsed is no line; one that can be is the failure of its call."""
    line = f'{{"custom_id": "a", "response": {{"status_code": 200, "body": {"[" * depth}{"]" * depth}}}}}'
    assert [one.status.value for _, one in read_lines(line.encode(), CONNECTION)] in ([], ["ERROR"])


def test_an_answer_that_is_nested_too_deeply_to_be_written_again_fails_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How deep Python parses and how deep it writes are not the same in all its versions."""

    def give_up(_value: object) -> str:
        raise RecursionError

    line = b'{"custom_id": "a", "response": {"status_code": 200, "body": {"choices": []}}}'
    monkeypatch.setattr(json, "dumps", give_up)
    ((key, completion),) = read_lines(line, CONNECTION)
    assert (key, completion.error) == ("a", "the answer is nested too deeply to be read")


def test_no_calls_are_no_file() -> None:
    """An empty batch would be refused."""
    assert list(cut_files([], BatchLimits())) == []
