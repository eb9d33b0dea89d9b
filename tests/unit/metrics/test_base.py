"""Laws of counting, merging and naming, of exact sums, and of metrics in Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pytest

from answerkey.errors import SpecError
from answerkey.metrics import Mean, Metric, ValueNames, expected_names, name_values, python
from answerkey.metrics.base import ValueGroup, split_counts, write_label
from answerkey.metrics.classification import (
    BinaryClassification,
    F1Score,
    Frequency,
    MulticlassClassification,
    Precision,
)
from answerkey.metrics.intervals import average, root
from answerkey.metrics.moments import Max, StdDev, WeightedAverage
from answerkey.metrics.python import PythonMetric
from answerkey.types import MetricValue, Scores

from .conftest import compute, make_scores


def test_combinations_are_counted_once() -> None:
    """Equal rows become one combination with its count; a decimal is a float.

    A sample is left out for one reason only; that it has no score comes first.
    """
    scores = make_scores({"x": [1.0, 1.0, 0.0]}, {"y": ["A", "A", None]})
    counts = split_counts(scores, ["x", "y"], [])[()].counts
    assert sorted(counts, key=repr) == [((0.0, None), 1), ((1.0, "A"), 2)]
    scores = make_scores({"x": [Decimal("0.5")]})
    assert split_counts(scores, ["x"], [])[()].counts == [((0.5,), 1)]
    scores = make_scores({"x": [None]}, status=["FAILED"], excluded_by=["rule"])
    assert split_counts(scores, ["x"], [])[()].left_out == {"failed": 1}


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("a", "a"),
        (1, "1"),
        (1.0, "1.0"),
        (True, "True"),
        (["ä", 1], '["ä", 1]'),
        ({"b": 1, "a": 2}, '{"a": 2, "b": 1}'),
    ],
)
def test_label_is_the_text_of_a_value(value: object, label: str) -> None:
    """Numbers and booleans as Python prints them, nested values as JSON with sorted keys."""
    assert write_label(value) == label


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ([("mcqa", "a", ["x"]), ("mcqa", "b", ["x", "y"])], ["a_x", "b_x", "y"]),
        (
            [("one", "mean", ["x"]), ("two", "mean", ["x"]), ("two", "other", ["x"])],
            ["one_mean_x", "two_mean_x", "other_x"],
        ),
        ([("s", "a", ["x"]), ("s", "b", ["x"]), ("s", "c", ["a_x"])], ["s_a_x", "b_x", "a_x"]),
        ([("s", "m", ["x", "x", "x"])], ["s_m_x", "s_m_x-2", "s_m_x-3"]),
    ],
    ids=["metric key", "scorer key", "no longer name hides another", "numbered"],
)
def test_equal_names_become_distinct(
    groups: list[tuple[str, str, list[str]]], names: list[str]
) -> None:
    """By the metric's key, else also the scorer's, else a number; a name that is unique stays."""
    made: list[ValueGroup] = []
    for scorer, metric, listed in groups:
        made.append((scorer, metric, "score", "mean", [MetricValue(n, 1.0, 1) for n in listed]))
    assert [value.name for value in name_values(made)] == names


EXAMPLES: list[Metric] = [
    Mean("is_correct"),
    Mean("is_correct", "Accuracy"),
    Max("hits"),
    StdDev("hits"),
    Frequency("label"),
    WeightedAverage("label", {"a": 1.0, "b": 0.0}),
    Precision("hits", "misses"),
    F1Score("hits", "misses", "misses", "F"),
    BinaryClassification("label", "said", "a", "b"),
    MulticlassClassification("label", "said"),
]


COLUMNS: dict[str, Sequence[object]] = {
    "is_correct": [1.0, 0.0, 1.0],
    "hits": [1, 0, 2],
    "misses": [0, 1, 1],
    "label": ["a", "b", "a"],
    "said": ["a", "a", "b"],
}


@pytest.mark.parametrize("metric", EXAMPLES, ids=lambda metric: type(metric).__name__)
def test_every_value_has_a_name_that_was_foreseen(metric: Metric) -> None:
    """What a metric is called before there are scores is what it is called afterwards."""
    values, names = compute(metric, make_scores(COLUMNS)), expected_names(metric)
    assert all(names.allow(name) for name in values)
    assert set(names.names) <= set(values)


def test_a_name_that_no_value_can_have_is_refused() -> None:
    """A plain metric has one name.

    Labels stand between an opening and an ending, which do not overlap. Nothing can be said about a
    snippet before it runs.
    """
    assert not expected_names(Mean("is_correct")).allow("accuracy")
    assert not expected_names(Frequency("label")).allow("lable_a")
    classes = expected_names(MulticlassClassification("label", "said"))
    expected = [True, False, False]
    assert [classes.allow(name) for name in ("a_precision", "precision", "a_accuracy")] == expected
    names = ValueNames(("x",), (("ab", "bc"),))
    allowed = [name for name in ("x", "abbc", "ab-bc", "abc", "bc", "y") if names.allow(name)]
    assert allowed == ["x", "abbc", "ab-bc"]
    assert expected_names(PythonMetric("def compute_metrics(scores): return {}")).allow("whatever")


@pytest.mark.parametrize(
    ("metric", "is_share"),
    [
        (Mean("is_correct"), True),
        (Mean("score"), False),
        (Frequency("label"), True),
        (Max("hits"), False),
    ],
)
def test_values_between_0_and_1_are_known_as_shares(metric: Metric, *, is_share: bool) -> None:
    """Right or wrong, and shares by their kind."""
    assert expected_names(metric).is_share is is_share


@pytest.mark.parametrize(
    ("top", "bottom"),
    [(2, 1), (1, 3), (9, 4), (10**40 + 1, 7), (1, 10**600), (10**600, 3), (1, 2**2148)],
)
def test_root_is_the_nearest_float(top: int, bottom: int) -> None:
    """The root is less than half a step from the true one."""
    square = Fraction(top, bottom)
    nearest = root(square)
    assert nearest is not None
    below, above = math.nextafter(nearest, 0), math.nextafter(nearest, math.inf)
    assert ((Fraction(below) + Fraction(nearest)) / 2) ** 2 <= square
    assert square <= ((Fraction(nearest) + Fraction(above)) / 2) ** 2


def test_roots_and_means_are_rounded_once() -> None:
    """What no float can hold is None; no mean overflows."""
    assert (root(0), root(10**700)) == (0.0, None)
    assert (average([1e308, 1e308, 1e308]), average([1.0, 2.0, 4.5])) == (1e308, 2.5)


# Metrics in Python.


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
    values = run(
        "letters = [score.metadata['letter'] for score in scores]",
        "total = sum(score.values['x'] for score in scores)",
        "return {'total': total, 'as': letters.count('A'), 'ok': True}",
        scores=make_scores({"x": [1.5, 2.0, None]}, letters, status=status),
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
    with pytest.raises(SpecError, match=r"^error\[E108\]"):
        PythonMetric("  \n")
