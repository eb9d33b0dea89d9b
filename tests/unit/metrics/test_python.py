from __future__ import annotations

import pytest

from answerkey.errors import SpecError
from answerkey.metrics import python
from answerkey.metrics.python import PythonMetric

from .conftest import compute, make_scores


def test_values_are_what_the_snippet_returns() -> None:
    """The snippet sees values and metadata of the samples that count, and its mapping becomes the values."""
    metric = PythonMetric(
        "def compute_metrics(scores):\n"
        "    letters = [score.metadata['letter'] for score in scores]\n"
        "    total = sum(score.values['x'] for score in scores)\n"
        "    return {'total': total, 'as': letters.count('A'), 'ok': True}\n"
    )
    scores = make_scores(
        {"x": [1.5, 2.0, None]}, {"letter": ["A", "B", None]}, status=["SCORED"] * 2 + ["FAILED"]
    )
    values = compute(metric, scores)
    assert {name: value.value for name, value in values.items()} == {"total": 3.5, "as": 1.0, "ok": 1.0}
    assert (values["total"].n, values["total"].n_excluded, values["total"].type) == (
        2,
        {"failed": 1},
        "python",
    )


def test_async_snippet_is_awaited() -> None:
    """`async def` works as `def` does."""
    metric = PythonMetric("async def compute_metrics(scores):\n    return {'n': len(scores)}\n")
    assert compute(metric, make_scores({"x": [1, 2]}))["n"].value == 2.0


def test_failure_is_a_value_with_its_traceback() -> None:
    """A snippet that fails loses its own values and nothing else."""
    metric = PythonMetric("def compute_metrics(scores):\n    return {'x': 1 / 0}\n")
    value = compute(metric, make_scores({"x": [1]}))["python"]
    assert value.value is None
    assert value.note == "the snippet failed: ZeroDivisionError: division by zero"
    assert "1 / 0" in str(value.details["traceback"])
    assert value.details["kind"] == "raised"


def test_value_that_is_no_number_is_named() -> None:
    """Text and null in the mapping are no values; the others stay."""
    metric = PythonMetric("def compute_metrics(scores):\n    return {'a': 'high', 'b': None, 'c': 1}\n")
    values = compute(metric, make_scores({"x": [1]}))
    assert {name: value.value for name, value in values.items()} == {"a": None, "b": None, "c": 1.0}
    assert values["a"].note == "the snippet returned 'high', not a number"
    assert values["b"].note == "the snippet returned None, not a number"


@pytest.mark.parametrize("returned", ["[1, 2]", "None", "{}"])
def test_anything_but_a_mapping_is_a_failure(returned: str) -> None:
    """A metric snippet returns names and numbers."""
    metric = PythonMetric(f"def compute_metrics(scores):\n    return {returned}\n")
    value = compute(metric, make_scores({"x": [1]}))["python"]
    assert value.note == f"the snippet failed: it returned {returned}, not a mapping of names to numbers"


def test_no_scores_are_not_given_to_the_snippet() -> None:
    """Without samples that count nothing is run."""
    metric = PythonMetric("raise SystemExit\n")
    value = compute(metric, make_scores({"x": [None]}, status=["ERROR"]))["python"]
    assert (value.value, value.note) == (None, "no sample counts towards it")
    assert PythonMetric("raise SystemExit\n").finish(metric.merge([]))[0].n == 0


def test_snippet_sees_dataset_order_however_it_was_sharded() -> None:
    """Parts in dataset order give the scores in dataset order."""
    metric = PythonMetric(
        "def compute_metrics(scores):\n"
        "    return {'digits': int(''.join(str(score.values['x']) for score in scores))}\n"
    )
    whole = metric.measure(make_scores({"x": [3, 1, 2]}))
    shards = [metric.measure(make_scores({"x": [3]})), metric.measure(make_scores({"x": [1, 2]}))]
    assert metric.finish(metric.merge(shards)) == metric.finish(whole)
    assert metric.finish(whole)[0].value == 312.0


def test_snippet_is_named_for_the_trust_check() -> None:
    """The code is handed out before it runs."""
    (snippet,) = PythonMetric("def compute_metrics(scores): ...").snippets()
    assert (snippet.function, snippet.source) == ("compute_metrics", "def compute_metrics(scores): ...")


def test_empty_snippet_is_refused_at_once() -> None:
    """No code, no metric."""
    with pytest.raises(SpecError) as caught:
        PythonMetric("  \n")
    assert caught.value.code == "E108"


def test_limit_of_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snippet that takes too long says how long it may take."""
    monkeypatch.setattr(python, "SECONDS", 1.0)
    metric = PythonMetric("def compute_metrics(scores):\n    while True:\n        pass\n")
    value = compute(metric, make_scores({"x": [1]}))["python"]
    assert value.note == "the snippet failed: the snippet took longer than its limit of 1 s"


def test_limit_of_memory_is_named() -> None:
    """A snippet that needs too much memory says how much it may take."""
    metric = PythonMetric("def compute_metrics(scores):\n    return {'n': len(bytearray(1 << 40))}\n")
    value = compute(metric, make_scores({"x": [1]}))["python"]
    assert value.note == "the snippet failed: the snippet ran out of memory; its limit is 4 GiB"


def test_which_fields_a_snippet_reads_is_its_own_affair() -> None:
    """So no field is checked, and none is left out of what it is given."""
    assert PythonMetric("def compute_metrics(scores):\n    return {}\n").fields() == ()


def test_failures_say_their_kind() -> None:
    """A value of the wrong kind, or code that cannot be loaded, whose last line is the note."""
    value = compute(PythonMetric("def compute_metrics(scores):\n    return 3\n"), make_scores({"x": [1]}))[
        "python"
    ]
    assert dict(value.details) == {"kind": "bad_value"}
    value = compute(PythonMetric("import nowhere_at_all\n"), make_scores({"x": [1]}))["python"]
    assert value.note == "the snippet failed: ModuleNotFoundError: No module named 'nowhere_at_all'"
    assert value.details["kind"] == "load"


def test_numbers_that_are_not_finite_are_no_values() -> None:
    """They fail; a truth value is 1 or 0, and no number has an interval, since nobody knows its formula."""
    code = "def compute_metrics(scores):\n    return {'a': float('inf'), 'b': 1}\n"
    value = compute(PythonMetric(code), make_scores({"x": [1]}))["python"]
    assert value.note == "the snippet failed: the snippet returned NaN or an infinity"
    code = "def compute_metrics(scores):\n    return {'b': True, 'c': 10**400}\n"
    values = compute(PythonMetric(code), make_scores({"x": [1]}))
    assert (values["b"].value, values["b"].interval) == (1.0, None)
    assert values["b"].interval_note is not None
    assert (values["c"].value, values["c"].note) == (None, "the snippet returned a number that is not finite")
