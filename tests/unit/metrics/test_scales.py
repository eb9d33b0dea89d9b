"""Intervals stay inside the scale of their value; a task without metrics is warned about."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.testing import TestServer

Call = Callable[..., Any]
#: The judge's scores, from 1 to 5, by question.
SCORES = [1, 1, 5, 1, 2, 1]


def judge(messages: Any) -> str:  # noqa: ANN401 - a list of messages
    """Return the verdict on the question whose number stands in the prompt."""
    number = int(re.findall(r"q(\d+)", str(messages[0]["content"]))[0])
    return json.dumps({"reasoning": "so", "score": SCORES[number % len(SCORES)], "confidence": 0.9})


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return an endpoint that judges; the call cache is this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with TestServer(judge) as running:
        yield running.url


def score(
    url: str, metrics: list[dict[str, object]] | None = None, *, rows: int = 6, **more: object
) -> ak.Run:
    """Return a run of a judge over these rows; each passage has two of them."""
    scorer: dict[str, object] = {
        "type": "model_as_a_judge_scorer",
        "model_key": f"{url}#judge",
        "user_prompt": "{{ sample.question }}: {{ model_output }}",
        "score_min": 1,
        "score_max": 5,
    }
    task = {"key": "t", "display_name": "T", "description": "D"}
    scorer |= {} if metrics is None else {"metrics": metrics}
    samples = [{"question": f"q{n}", "passage": f"p{n // 2}", "half": f"h{n % 2}"} for n in range(rows)]
    return ak.score({**task, "definition": {"scorers": [scorer], **more}}, samples, ["x"] * rows)


def test_the_mean_of_a_judge_keeps_to_its_scale(url: str) -> None:
    """Scores are from 0 to 1: the interval of their mean does not begin below 0."""
    value = score(url).metrics["Mean Score"]
    assert value.value == pytest.approx(5 / 24)
    assert value.interval is not None
    assert value.interval[0] == 0.0
    assert value.interval[1] == pytest.approx(0.62865, abs=1e-5)
    assert value.interval_method == "student_t"


@pytest.mark.parametrize(
    ("metric", "scale"),
    [
        ({"type": "mean", "field": "raw_score"}, (1.0, 5.0)),
        ({"type": "weighted_average", "field": "score", "weights": "raw_score"}, (0.0, 1.0)),
        ({"type": "weighted_average", "field": "raw_score", "weights": {1: -2, 2: 0, 5: 3}}, (-2.0, 3.0)),
        ({"type": "mean", "field": "score", "cluster_by": "passage"}, (0.0, 1.0)),
    ],
)
def test_every_metric_keeps_to_its_scale(
    url: str, metric: dict[str, object], scale: tuple[float, float]
) -> None:
    """Means, weighted averages, clustered ones, and all groups and their average."""
    run = score(url, [{**metric, "group_by": "half"}], rows=12)
    (value,) = run.metrics.values()
    groups = value.groups[0]
    found = [(one.value, one.interval) for one in (value, groups.macro, *groups.values)]  # type: ignore[attr-defined]
    ends = [(middle, *interval) for middle, interval in found if interval is not None]
    assert ends
    assert all(scale[0] <= low <= middle <= high <= scale[1] for middle, low, high in ends)


def test_trials_keep_to_the_scale_too(url: str) -> None:
    """The mean of aggregates of a bounded score is bounded."""
    trials = {
        "num_trials": 2,
        "score_aggregators": [{"score_name": "score", "aggregator": {"function": "max"}}],
    }
    task = {"trials": trials}
    samples = [{"question": f"q{n}"} for n in range(6)]
    scorer = {
        "type": "model_as_a_judge_scorer",
        "model_key": f"{url}#judge",
        "user_prompt": "{{ sample.question }}: {{ model_output }}",
        "score_min": 1,
        "score_max": 5,
    }
    said = [
        {"sample_id": f"{n + 1:06d}", "trial": trial, "completion": "x"} for n in range(6) for trial in (0, 1)
    ]
    whole = {"key": "t", "display_name": "T", "description": "D", "definition": {**task, "scorers": [scorer]}}
    (value,) = ak.score(whole, samples, said).metrics.values()
    assert value.interval is not None
    assert value.interval[0] == 0.0


def test_shares_of_a_snippet_keep_to_their_scale() -> None:
    """`is_correct` is from 0 to 1 in every scorer, with points for half an answer, too."""
    returned = "{'is_correct': sample['points'], 'other': sample['points']}"
    snippet = f"def compute_scores(sample):\n    return {returned}\n"
    metrics = [{"type": "mean", "field": "is_correct"}, {"type": "mean", "field": "other"}]
    scorer = {"type": "python", "compute_scores_snippet": snippet, "metrics": metrics}
    task = {"key": "t", "display_name": "T", "description": "D", "definition": {"scorers": [scorer]}}
    samples = [{"points": points, "completion": ""} for points in (0.5, 0, 1, 1)]
    run = ak.score(task, samples, trust_code=True)
    assert run.metrics["is_correct_mean"].interval == (0.0, 1.0)
    other = run.metrics["other_mean"].interval
    assert other is not None
    assert other[0] < 0
    assert other[1] > 1


def test_no_metrics_at_all_is_warned_about(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`metrics: []` gives no number; of a scorer that only annotates none is expected."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"answer": "A", "completion": "A"}\n')
    scorer = {"type": "string_equals", "ground_truth": "{{ sample.answer }}", "metrics": []}
    definition = {"scorers": [scorer, {**scorer, "key": "note", "purpose": "qa"}]}
    task = {"key": "t", "display_name": "T", "description": "D", "definition": definition}
    (tmp_path / "task.yaml").write_text(json.dumps(task))
    done = call(
        "check",
        tmp_path / "task.yaml",
        "--dataset",
        tmp_path / "rows.jsonl",
        "--completion-column",
        "completion",
    )
    assert done.code == 0
    assert "scorer `string_equals` has no metrics: the run will have no number of it" in done.out + done.err
    assert "scorer `note`" not in done.out + done.err
    ran = call("score", tmp_path / "task.yaml", "--dataset", tmp_path / "rows.jsonl")
    assert "has no metrics" in ran.out + ran.err
