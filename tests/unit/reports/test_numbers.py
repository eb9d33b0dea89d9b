from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from answerkey.reports.numbers import draw_numbers
from answerkey.runs import Run, TaskRun
from answerkey.text import plain_text
from answerkey.types import MetricValue

CLUSTERED = {"clusters": 57, "clusters_corrected": True, "cluster_by": "subject"}
VALUES = [
    MetricValue("Accuracy", 0.85, 100, {}, (0.77, 0.91), "wilson", std_error=0.0359, is_share=True),
    MetricValue("Longest", 12.5, 100, interval_note="the end of a sample says nothing"),
    MetricValue("Shortest", 2.5, 100, interval_note="the end of a sample says nothing"),
]


def give_values(run: Run, values: list[MetricValue]) -> TaskRun:
    """Return the run's task with these metrics."""
    return replace(run.tasks["mcqa"], metrics={value.name: value for value in values})


def test_why_there_is_no_interval_is_said_once(make_run: Callable[..., Run]) -> None:
    """Metrics with the same reason share a line."""
    text = plain_text(draw_numbers(give_values(make_run(), VALUES), 80))
    assert "  Accuracy  85.00 %  [77.00, 91.00]  100\n" in text
    assert "  no interval of Longest, Shortest: the end of a sample says nothing\n" in text


def test_standard_errors_are_shown_when_asked_for(make_run: Callable[..., Run]) -> None:
    """With `--digits` or in a long summary."""
    task = give_values(make_run(), VALUES)
    assert "  Accuracy  85.00 %  [77.00, 91.00]      3.59 %  100\n" in plain_text(
        draw_numbers(task, 80, with_errors=True)
    )
    assert "  Accuracy   0.8500  [0.7700, 0.9100]      0.0359  100\n" in plain_text(
        draw_numbers(task, 80, digits=4)
    )


def test_clusters_are_told(make_run: Callable[..., Run]) -> None:
    """The column, how many there are, and whether their number is corrected for; and of which metrics."""
    clustered = replace(VALUES[0], details=CLUSTERED, interval_method="clustered_wilson")
    text = plain_text(draw_numbers(give_values(make_run(), [clustered]), 80))
    assert "  standard error clustered by subject: 57 clusters, corrected by C/(C-1)\n" in text
    assert "      3.59 %  100\n" in text
    plain = replace(clustered, details=CLUSTERED | {"clusters_corrected": False})
    text = plain_text(draw_numbers(give_values(make_run(), [plain, VALUES[1]]), 120))
    assert "57 clusters, without the correction C/(C-1) of Accuracy\n" in text
