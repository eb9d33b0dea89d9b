from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from answerkey.reports.breakdown import draw_categories
from answerkey.reports.grouping import draw_groups, list_group_columns
from answerkey.runs import Run, TaskRun
from answerkey.text import plain_text
from answerkey.types import Groups, GroupValue

GROUPS = Groups(
    "subject",
    (
        GroupValue("algebra", 0.5, 10, {}, (0.2366, 0.7634), "wilson"),
        GroupValue("biology", None, 0, {"failed": 2}, note="no sample counts towards it"),
        GroupValue("chemistry", 1.0, 1, interval_note="there is one sample"),
    ),
    GroupValue(None, 0.75, 2, interval_note="a part with one sample says nothing about its spread"),
)


def give_groups(run: Run, groups: Groups = GROUPS) -> TaskRun:
    """Return the run's task with its first metric in groups."""
    task = run.tasks["mcqa"]
    first, *rest = task.metrics.values()
    values = [replace(first, groups=(groups,), is_share=True), *rest]
    return replace(task, metrics={value.name: value for value in values})


def test_groups_are_a_table_of_the_first_metric(make_run: Callable[..., Run]) -> None:
    """Each group with its value, interval and size; then why some have none."""
    text = plain_text(draw_groups(give_groups(make_run()), 80))
    assert "  By subject  MCQA Accuracy   95 % interval   n\n" in text
    assert "  algebra           50.00 %  [23.66, 76.34]  10\n" in text
    assert "  biology          no value                   0\n" in text
    assert "  biology: no sample counts towards it\n" in text
    assert "  chemistry: no interval: there is one sample\n" in text


def test_averages_are_below(make_run: Callable[..., Run]) -> None:
    """The value over all samples beside the plain mean over the groups, and why that has no interval."""
    text = plain_text(draw_groups(give_groups(make_run()), 80))
    assert "  Averages by subject    micro    macro  groups\n" in text
    assert "  MCQA Accuracy        50.00 %  75.00 %       2\n" in text
    assert (
        "  no interval of the macro average: a part with one sample says nothing about\n  its spread\n"
        in text
    )


def test_digits_are_plain_numbers(make_run: Callable[..., Run]) -> None:
    """Shares are fractions with as many digits as asked for."""
    text = plain_text(draw_groups(give_groups(make_run()), 80, digits=3))
    assert "  algebra             0.500  [0.237, 0.763]  10\n" in text


def test_many_groups_are_cut(make_run: Callable[..., Run]) -> None:
    """The sixty largest are shown, in their own order; the number of the others is said."""
    values = tuple(
        GroupValue(f"g{number:03d}", 0.5, 5 + number, {}, (0.1, 0.9), "wilson") for number in range(80)
    )
    text = plain_text(draw_groups(give_groups(make_run(), replace(GROUPS, values=values)), 80))
    assert "g019" not in text
    assert "g020" in text
    assert "  and 20 smaller ones; `--json` has them all\n" in text


def test_too_many_groups_say_so(make_run: Callable[..., Run]) -> None:
    """A column without listed groups has one line."""
    macro = GroupValue(None, None, 20_000, note="there are more than 10000 groups")
    text = plain_text(draw_groups(give_groups(make_run(), Groups("id", (), macro)), 80))
    assert "  By id: there are more than 10000 groups\n" in text


def test_a_table_of_categories_is_not_drawn_twice(make_run: Callable[..., Run]) -> None:
    """Where a metric is grouped by the category column, its own table stands for the other."""
    run: Run = make_run()
    assert draw_categories(run.tasks["mcqa"], 80)
    task = give_groups(run, replace(GROUPS, column="category"))
    assert list_group_columns(task) == ["category"]
    assert draw_categories(task, 80) == []


def test_categories_end_with_their_mean(make_run: Callable[..., Run]) -> None:
    """The macro average of the categories, with its interval."""
    categories: dict[str, Any] = {
        "history": {"n": 40, "correct": 30, "partial": 0},
        "science": {"n": 20, "correct": 10, "partial": 0},
    }
    task = make_run(tally={"categories": categories}).tasks["mcqa"]
    text = plain_text(draw_categories(task, 80))
    assert "  macro average   62.50 %  [48.42, 74.74]" in text
