from __future__ import annotations

import polars as pl
import pytest
from tests.samples import read_cases, samples_from_frame, score_table

from answerkey.errors import ScoringError
from answerkey.sandbox import Snippet, SnippetProcess
from answerkey.scorers import python_scorer
from answerkey.scorers.python_scorer import PythonScorer
from answerkey.types import Completion, Completions, CompletionStatus, Samples, Scores

CASES = read_cases(__file__)


def build_samples(*numbers: object) -> Samples:
    """Return samples with these numbers."""
    return samples_from_frame(pl.DataFrame({"n": numbers}, strict=False))


def score(source: str, *numbers: object, completion: Completion | None = None) -> Scores:
    """Return the scores of a snippet over samples with these numbers."""
    samples = build_samples(*numbers)
    answers = [completion or Completion("B")] * len(samples)
    return score_table(
        PythonScorer(source), samples, Completions.build(samples.ids, answers, source="recorded")
    )


def list_reasons(scores: Scores) -> list[str | None]:
    """Return the reason of each row."""
    return [row.reason for row in scores.rows()]


@pytest.mark.parametrize(
    "source",
    [
        (
            "def compute_scores(sample, solver_output):\n"
            "    text = solver_output['output']['choices'][0]['message']['content']\n"
            "    return {'double': sample['n'] * 2, 'is_b': text == 'B'}"
        ),
        "def compute_scores(sample):\n    return {'double': sample['n'] * 2, 'is_b': True}",
        "async def compute_scores(sample):\n    return {'double': sample['n'] * 2, 'is_b': True}",
    ],
    ids=["both", "sample", "async"],
)
def test_function_scores_each_sample(source: str) -> None:
    """The function may take the solver's output or not, and may be async.

    Numbers become decimals.
    """
    scores = score(source, 1, 2)
    expected = [{"double": 2.0, "is_b": 1.0}, {"double": 4.0, "is_b": 1.0}]
    assert [row.values for row in scores.rows()] == expected
    assert scores.encoded == frozenset()


def test_scores_and_metadata_may_be_told_apart() -> None:
    """With `scores` and `metadata` the latter is kept beside.

    Text and nested values stay what they are.
    """
    returned = (
        "{'scores': {'x': 1.7976931348623157e308, 'kind': 'b'}, 'metadata': {'seen': [1, 'é']}}"
    )
    scores = score(f"def compute_scores(sample):\n    return {returned}", 1)
    (row,) = scores.rows()
    assert row.values == {"x": 1.7976931348623157e308, "kind": "b"}
    assert row.metadata == {"seen": [1, "é"], "snippet_traceback": None}
    assert scores.frame["metadata"].struct.field("seen").to_list() == ['[1, "é"]']
    assert scores.frame.schema["metadata"] == pl.Struct(
        {"seen": pl.String, "snippet_traceback": pl.String}
    )


def test_failing_sample_fails_alone_with_its_traceback() -> None:
    """An exception fails its row: the reason says what, the traceback shows the user's own line."""
    scores = score("def compute_scores(sample):\n    return {'x': 1 / sample['n']}", 1, 0, 2)
    reason = "SNIPPET_FAILED (raised): ZeroDivisionError: division by zero"
    assert list_reasons(scores) == [None, reason, None]
    result = list(scores.rows())
    assert [row.values["x"] for row in result] == [1.0, None, 0.5]
    assert "return {'x': 1 / sample['n']}" in str(result[1].metadata["snippet_traceback"])
    assert result[0].metadata["snippet_traceback"] is None


@pytest.mark.parametrize("value", CASES["unsuitable"])
def test_unsuitable_values_fail_their_rows(value: str) -> None:
    """What is no dict of plain finite values is FAILED, never NaN and never zero."""
    scores = score(f"def compute_scores(sample):\n    return {value}", 1)
    (reason,) = list_reasons(scores)
    assert str(reason).startswith("SNIPPET_FAILED (bad_value): ")
    assert scores.value_names == []


def test_values_of_mixed_kinds_are_kept_exactly() -> None:
    """A value that is a number here and text there is read back as it was returned.

    A missing one is null.
    """
    source = (
        "def compute_scores(sample):\n    return {'x': sample['n']} if sample['n'] != '0' "
        "else {'y': True}"
    )
    scores = score(source, "a", "0", "b")
    expected = [{"x": "a", "y": None}, {"x": None, "y": 1.0}, {"x": "b", "y": None}]
    assert [row.values for row in scores.rows()] == expected
    assert scores.encoded == {"x"}


def test_failed_calls_are_errors_unless_the_sample_is_enough() -> None:
    """A failed call has no score; a function of the sample alone does not mind."""
    failed = Completion(None, CompletionStatus.ERROR)
    snippet = "def compute_scores(sample, solver_output):\n    return {'x': 1}"
    assert list_reasons(score(snippet, 1, completion=failed)) == ["CALL_FAILED"]
    alone = "def compute_scores(sample):\n    return {'x': 1}"
    assert list_reasons(score(alone, 1, completion=failed)) == [None]
    assert PythonScorer(snippet).needs_completion
    assert not PythonScorer(alone).needs_completion


def test_snippet_that_cannot_be_loaded_is_the_tasks_trouble() -> None:
    """A snippet that fails before any sample is seen stops the task with E401 and its own
    traceback.
    """
    with pytest.raises(ScoringError, match=r"(?s)^error\[E401\]: .*this_is_missing"):
        score("import this_is_missing\ndef compute_scores(sample):\n    return {}", 1)


def test_snippet_is_named_for_the_trust_check() -> None:
    """The scorer says which code it would run."""
    (snippet,) = PythonScorer("def compute_scores(sample): ...").snippets()
    assert snippet.function == "compute_scores"
    assert snippet.source == "def compute_scores(sample): ..."


def test_no_rows_need_no_verdicts() -> None:
    """An empty chunk has an empty table."""
    assert len(score("def compute_scores(sample):\n    return {}")) == 0


@pytest.mark.parametrize(("source", "needs"), CASES["needs"])
def test_whether_completions_are_needed_is_told_by_the_text(source: str, needs: bool) -> None:  # noqa: FBT001 - a row of a table
    """Where the text does not show how many arguments there are, completions are there."""
    assert PythonScorer(source).needs_completion is needs


def test_crash_and_hang_fail_their_rows_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a death or a hang the process is started anew for the rest."""

    def open_impatient(snippet: Snippet) -> SnippetProcess:
        return SnippetProcess(snippet, seconds=1.5)

    monkeypatch.setattr(python_scorer, "SnippetProcess", open_impatient)
    source = (
        "import os\ndef compute_scores(sample):\n"
        "    if sample['n'] == 1:\n        os._exit(3)\n"
        "    while sample['n'] == 2:\n        pass\n"
        "    return {'x': sample['n']}"
    )
    scores = score(source, 0, 1, 2, 3)
    assert [row.status.value for row in scores.rows()] == ["SCORED", "FAILED", "FAILED", "SCORED"]
    kinds = [str(reason).partition(":")[0] for reason in list_reasons(scores)]
    assert kinds == ["None", "SNIPPET_FAILED (crashed)", "SNIPPET_FAILED (timeout)", "None"]
