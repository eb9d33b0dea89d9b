from __future__ import annotations

import pytest

from answerkey.errors import SpecError
from answerkey.metrics import python
from answerkey.metrics.python import PythonMetric
from answerkey.types import MetricValue, Scores

from .conftest import compute, make_scores


def run(*lines: str, scores: Scores | None = None) -> dict[str, MetricValue]:
    """Return what a function with these lines makes of scores: one sample with x = 1."""
    body = "\n".join(f"    {line}" for line in lines)
    source = f"def compute_metrics(scores):\n{body}\n"
    return compute(PythonMetric(source), scores or make_scores({"x": [1]}))


def test_values_come_from_the_snippet() -> None:
    """The snippet sees values and metadata of the samples that count, and its mapping becomes the
    values.
    """
    letters, status = {"letter": ["A", "B", None]}, ["SCORED", "SCORED", "FAILED"]
    scores = make_scores({"x": [1.5, 2.0, None]}, letters, status=status)
    values = run(
        "letters = [score.metadata['letter'] for score in scores]",
        "total = sum(score.values['x'] for score in scores)",
        "return {'total': total, 'as': letters.count('A'), 'ok': True}",
        scores=scores,
    )
    expected = {"total": 3.5, "as": 1.0, "ok": 1.0}
    assert {name: value.value for name, value in values.items()} == expected
    total = values["total"]
    assert (total.n, total.n_excluded, total.type) == (2, {"failed": 1}, "python")
    assert total.interval is None
    assert total.interval_note is not None
    metric = PythonMetric("async def compute_metrics(scores):\n    return {'n': len(scores)}\n")
    assert compute(metric, make_scores({"x": [1, 2]}))["n"].value == 2.0


NOT_JSON = (
    "the snippet returned a value that is not plain JSON "
    "(ValueError: Out of range float values are not JSON compliant)"
)


@pytest.mark.parametrize(
    ("lines", "note", "kind"),
    [
        (["return {'x': 1 / 0}"], "ZeroDivisionError: division by zero", "raised"),
        (["return [1, 2]"], "it returned [1, 2], not a mapping of names to numbers", "bad_value"),
        (["return None"], "it returned None, not a mapping of names to numbers", "bad_value"),
        (["return {}"], "it returned {}, not a mapping of names to numbers", "bad_value"),
        (["return {'a': float('inf')}"], NOT_JSON, "bad_value"),
        (["while True: pass"], "the snippet took longer than its limit of 1 s", "timeout"),
        (
            ["return {'n': len(bytearray(1 << 40))}"],
            "the snippet ran out of memory; its limit is 4096 MiB",
            "memory",
        ),
        (["return 3", "import", ""], "SyntaxError: invalid syntax", "load"),
    ],
)
def test_a_failure_is_a_value_with_its_kind(
    lines: list[str], note: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snippet that fails, or takes more than its limits, loses its own values and nothing
    else.
    """
    monkeypatch.setattr(python, "SECONDS", 1.0 if kind == "timeout" else 60.0)
    (value,) = run(*lines).values()
    assert (value.name, value.value, value.note) == ("python", None, f"the snippet failed: {note}")
    assert value.details["kind"] == kind
    assert kind != "raised" or lines[0] in str(value.details["traceback"])


def test_a_value_that_is_not_a_number_is_named() -> None:
    """Text, null and numbers beyond floats are not values; the others are kept."""
    values = run("return {'a': 'high', 'b': None, 'c': 10**400, 'd': 1}")
    assert {name: (value.value, value.note) for name, value in values.items()} == {
        "a": (None, "the snippet returned 'high', not a number"),
        "b": (None, "the snippet returned None, not a number"),
        "c": (None, "the snippet returned a number that is not finite"),
        "d": (1.0, None),
    }


def test_no_scores_are_not_given_to_the_snippet() -> None:
    """Without samples that count nothing is run."""
    metric = PythonMetric("raise SystemExit\n")
    value = compute(metric, make_scores({"x": [None]}, status=["ERROR"]))["python"]
    assert (value.value, value.note) == (None, "no sample counts towards it")


def test_snippet_sees_dataset_order() -> None:
    """The scores are in the order of the dataset."""
    line = "return {'digits': int(''.join(str(score.values['x']) for score in scores))}"
    assert run(line, scores=make_scores({"x": [3, 1, 2]}))["digits"].value == 312.0


def test_snippet_is_named_for_the_trust_check() -> None:
    """The code is handed out before it runs."""
    (snippet,) = PythonMetric("def compute_metrics(scores): ...").snippets()
    assert snippet.function == "compute_metrics"
    assert snippet.source == "def compute_metrics(scores): ..."
    assert PythonMetric("def compute_metrics(scores): ...").fields() == ()


def test_empty_snippet_is_refused_at_once() -> None:
    """No code, no metric."""
    with pytest.raises(SpecError) as caught:
        PythonMetric("  \n")
    assert caught.value.code == "E108"
