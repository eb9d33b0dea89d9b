from __future__ import annotations

import json

import polars as pl
import pytest
from tests.samples import samples_from_frame

from answerkey.errors import DataError, SpecError
from answerkey.solvers import SOLVERS, PassThroughSolver
from answerkey.types import Completions, Samples


def make_samples(cells: list[object], name: str = "trace", *, encoded: bool = False) -> Samples:
    """Return samples with one column."""
    frame = pl.DataFrame({name: cells})
    ids = pl.Series("sample_id", [str(i) for i in range(len(cells))], dtype=pl.String)
    return samples_from_frame(frame, ids, "t.jsonl", encoded=frozenset({name} if encoded else ()))


def solve(samples: Samples, column: str = "trace") -> Completions:
    """Return the completions of a column."""
    return PassThroughSolver(column).solve(samples, model=None, facts=None, examples=None)


def read(*cells: object) -> list[tuple[str | None, str]]:
    """Return text and status of each cell."""
    table = solve(make_samples(list(cells))).frame
    return list(zip(table["completion"].to_list(), table["status"].to_list(), strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "B", "", " B\n", '{"answer": "B"}', '["A", "B"]', "{B}", "[B] because", "[1]", "{",
        '{"choices": ["A"]}', "{" * 50_000,
    ],
)  # fmt: skip
def test_plain_text_is_unchanged(text: str) -> None:
    """Text, even text that looks like JSON but is not a trace, is the completion itself."""
    assert read(text) == [(text, "OK")]


def test_null_has_no_text() -> None:
    """An empty cell is a reply without text."""
    assert read("B", None) == [("B", "OK"), (None, "NO_TEXT")]


@pytest.mark.parametrize(
    ("trace", "outcome"),
    [
        ({"role": "assistant", "content": "B"}, ("B", "OK")),
        ([{"role": "user", "content": "?"}, {"role": "assistant", "content": "B"}], ("B", "OK")),
        ({"choices": [{"message": {"role": "assistant", "content": "B"}}]}, ("B", "OK")),
        ({"messages": [{"role": "assistant", "content": "B"}]}, ("B", "OK")),
        ({"role": "assistant", "content": None, "refusal": "no"}, (None, "REFUSED")),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}, (None, "NO_TEXT")),
    ],
)
def test_traces_are_values_or_json_text(trace: object, outcome: tuple[str | None, str]) -> None:
    """A trace gives the same completion natively, encoded, and as JSON text."""
    assert read(trace) == [outcome]
    assert read(f" {json.dumps(trace)}") == [outcome]
    table = solve(make_samples([json.dumps(trace)], encoded=True)).frame
    assert (table["completion"][0], table["status"][0]) == outcome


def test_a_trace_keeps_its_prompt() -> None:
    """The messages before the last of the assistant are the prompt; the source is `recorded`."""
    user = {"role": "user", "content": "?"}
    frame = solve(make_samples([json.dumps([user, {"role": "assistant", "content": "B"}])])).frame
    assert json.loads(frame["prompt"][0]) == [user]
    assert frame["source"].to_list() == ["recorded"]


def test_numbers_are_read_as_text() -> None:
    """A column of numbers holds completions that are numbers."""
    assert read(1, 2) == [("1", "OK"), ("2", "OK")]


def test_dotted_name_reaches_into_a_struct() -> None:
    """The exact column comes first, then the longest matching field; names may hold dots."""
    samples = make_samples([{"m.1": "A", "m": {"1": "B"}}, {"m.1": "C", "m": {"1": "D"}}], "out")
    assert solve(samples, "out.m.1").frame["completion"].to_list() == ["A", "C"]
    frame = solve(make_samples([{"a": {"b": "B"}}], "out"), "out.a.b").frame
    assert frame["completion"].to_list() == ["B"]
    assert solve(make_samples(["B"], "out.a"), "out.a").frame["completion"].to_list() == ["B"]


def test_a_missing_field_has_no_text() -> None:
    """A path that leads nowhere in a row is a reply without text."""
    samples = make_samples(['{"a": "B"}', '"text"', "{}"], "out", encoded=True)
    assert solve(samples, "out.a").frame["status"].to_list() == ["OK", "NO_TEXT", "NO_TEXT"]


def test_a_missing_column_is_reported_once() -> None:
    """A trace column that does not exist is one error with the nearest name."""
    samples = make_samples(["B", "C"])
    ((position, error),) = PassThroughSolver("trac").check_prompts(samples, None)[1]
    assert (position, error.code, error.hint) == (0, "E206", "did you mean `trace`?")
    with pytest.raises(DataError):
        solve(samples, "trac")
    assert PassThroughSolver("trace").check_prompts(samples, None)[1] == []


def test_recorded_completions_have_a_single_trial() -> None:
    """A column holds one completion for each sample, so several trials are refused."""
    samples = samples_from_frame(pl.DataFrame({"said": ["A"]}), pl.Series("sample_id", ["a"]))
    solver = PassThroughSolver("said")
    with pytest.raises(SpecError, match=r"^error\[E119\]: .*not 3 trials"):
        solver.solve(samples, model=None, facts=None, examples=None, trials=range(3))


def test_solvers_are_found_by_type() -> None:
    """The registry's keys are the solvers' types."""
    names = ["single_turn_solver", "pass_through_solver", "choice_ranking_solver"]
    assert [(kind, solver.type) for kind, solver in SOLVERS.items()] == [(n, n) for n in names]
