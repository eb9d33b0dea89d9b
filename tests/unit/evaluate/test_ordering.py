"""Laws of `choice_order`, from the file to the run."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from tests.projects import describe_solver, describe_task

import answerkey as ak
from answerkey.errors import AnswerkeyError
from answerkey.evaluate.dry_run import plan_calls
from answerkey.evaluate.reopen import reopen
from answerkey.spec import job
from answerkey.testing import TestServer

if TYPE_CHECKING:
    from tests.unit.evaluate.conftest import Project

SOLVER = describe_solver("{{ sample.question }}\n{{ sample.options | join('\\n') }}")
SCORER = {
    "type": "string_equals_mcqa",
    "ground_truth_choice": "{{ sample.answer }}",
    "choices": "{{ 'ABCDE'[:sample.options | length] | list }}",
    "metrics": [
        {"type": "mean", "field": "is_correct", "name": "Accuracy"},
        {"type": "frequency", "field": "completion_validity"},
    ],
}
ROWS = [
    {"question": "q1", "options": ["right", "no", "never"], "answer": "A", "topic": "x"},
    {"question": "q2", "options": ["no", "right", "nay", "none"], "answer": "B", "topic": "x"},
    {"question": "q3", "options": ["no", "right", "Both A and B"], "answer": "B", "topic": "y"},
]
Called = Callable[..., Any]
Write = Callable[..., Any]
SAYS_A = "builtin/constant?choice=A"


def make_task(orders: str = "rotations", **changes: object) -> dict[str, Any]:
    """Return the task, with changes to its definition."""
    order = {"options": "{{ sample.options }}", "orders": orders}
    return describe_task(
        **{"choice_order": order, "solver": SOLVER, "scorers": [SCORER], **changes}
    )


@pytest.fixture
def write(project: Project) -> Write:
    """Return what writes a task file and its rows."""

    def write(
        orders: str = "rotations", rows: Sequence[Mapping[str, Any]] = ROWS, **changes: object
    ) -> Project:
        project.write_rows(rows)
        project.write_task(make_task(orders, **changes))
        return project

    return write


def find_right(messages: Sequence[Mapping[str, Any]]) -> str:
    """Answer with the letter of the line that says `right`."""
    return "ABCDE"[str(messages[-1]["content"]).split("\n")[1:].index("right")]


def always_first(
    rows: Sequence[Mapping[str, Any]] = ROWS, orders: str = "rotations", **changes: object
) -> ak.Run:
    """Return a run in memory whose model always says A."""
    return ak.score(make_task(orders, **changes), list(rows), model=SAYS_A)


def read_numbers(run: ak.Run) -> dict[str, float | None]:
    """Return the values of all metrics by name."""
    return {name: value.value for name, value in run.metrics.items()}


def test_every_sample_is_shown_in_every_rotation() -> None:
    """There is a row for each order, which says how the options stood.

    A sample left in place has one. The truth moves with its option, and what is said is mapped
    back. Counts are of samples. One letter always is right in one rotation of each: the mean is the
    share of places, nothing is right in all orders, and RStd is at its largest.
    """
    run = always_first()
    task = run.tasks["quiz"]
    assert task.scores["sample_id"].to_list() == [
        "000001", "000001~1", "000001~2", "000002", "000002~1", "000002~2", "000002~3", "000003",
    ]  # fmt: skip
    scores = task.scores["string_equals_mcqa"].struct.field("metadata")
    second = scores[1]
    assert second["option_order"] == ["B", "C", "A"]
    assert (second["ground_truth_choice"], second["ground_truth_option"]) == ("C", "A")
    assert (second["predicted_choice"], second["predicted_option"]) == ("A", "B")
    assert second["base_sample_id"] == "000001"
    assert scores[7]["not_reordered"] == "REFERS_TO_LABELS"
    assert task.totals["counts"]["samples"] == 3
    assert task.totals["orders"]["counts"]["samples"] == 8
    assert task.totals["orders"]["not_reordered"] == {"REFERS_TO_LABELS": 1}
    mean = pytest.approx((1 / 3 + 1 / 4) / 2)
    assert read_numbers(run) == {
        "Accuracy": pytest.approx((1 / 3 + 1 / 4 + 0) / 3), "completion_validity_VALID": 1.0,
        "order_mean": mean, "order_all_right": 0.0, "order_any_right": 1.0,
        "order_consistency": 0.0, "order_modal_share": mean, "order_recall_A": 1.0,
        **dict.fromkeys(("order_recall_B", "order_recall_C", "order_recall_D"), 0.0),
        "order_rstd": pytest.approx(100 * (3 / 16) ** 0.5),
    }  # fmt: skip
    assert run.metrics["order_mean"].n == 2
    assert run.metrics["order_mean"].n_excluded == {"not_reordered": 1}
    assert run.metrics["Accuracy"].n == 3


def test_a_model_that_reads_the_options_is_right_in_all_orders(write: Write) -> None:
    """Whatever the order, the prompt shows the options as they stand in it, and the truth is
    there.
    """
    numbers = []
    with TestServer(find_right) as server:
        for name in ("one", "two"):
            run = write().run(name, model=f"{server.url}#m", cache_policy="reuse")
            numbers.append(read_numbers(run))
        assert server.asked.total == 8
    assert numbers[0] == numbers[1]
    assert (numbers[0]["order_all_right"], numbers[0]["order_consistency"]) == (1.0, 1.0)


def test_a_run_that_stopped_goes_on_with_the_same_orders(write: Write) -> None:
    """After a limit, `resume` asks the rows that are left, and nothing twice."""
    project = write("shuffled", trials={"num_trials": 2})
    with TestServer(find_right) as server:
        with pytest.raises(AnswerkeyError, match="E305"):
            project.run(model=f"{server.url}#m", cache_policy="no-cache", max_calls=3)
        run = ak.resume(project.folder / "run")
        assert server.asked.total == 6
    assert read_numbers(run)["order_mean"] == 1.0


def list_orders(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the orders in which a run shuffles the options of rows."""
    scores = always_first(rows, "shuffled").tasks["quiz"].scores["string_equals_mcqa"]
    orders: list[list[str]] = scores.struct.field("metadata").struct.field("option_order").to_list()
    return orders


def test_dropping_a_row_changes_no_other() -> None:
    """A shuffle depends on the seed and the row's own content, not on where it stands."""
    rows = [{**ROWS[0], "question": f"q{number}"} for number in range(30)]
    orders = list_orders(rows)
    assert list_orders(rows[7:]) == orders[7:]
    assert len({tuple(order) for order in orders}) == 6


def test_every_file_format_has_the_same_shuffles(write: Write) -> None:
    """The same rows in CSV and in JSONL are shown in the same orders."""
    rows = [{**ROWS[1], "question": f"q{number}", "year": 1990 + number} for number in range(20)]
    project = write("shuffled", rows)
    with (project.folder / "rows.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows({**row, "options": json.dumps(row["options"])} for row in rows)
    (project.folder / "data.yaml").write_text(
        "key: data\ndisplay_name: D\nsource: {type: local, file_path: rows.csv, "
        "columns: {options: list}}\n"
    )
    task, folder = project.folder / "task.yaml", project.folder
    runs = [
        ak.run(task, dataset=folder / name, model="builtin/longest", out=folder / f"{name}.run")
        for name in ("rows.jsonl", "data.yaml")
    ]
    first, second = (reopen(run).read(range(20)).samples.values("options") for run in runs)
    assert first == second


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the rows are cut, the rows of a sample stay together, and the numbers are the
    same.
    """
    rows = [{**ROWS[number % 3], "question": f"q{number}"} for number in range(17)]
    model = "builtin/simulated?accuracy=0.6&seed=3"
    whole = ak.score(make_task(group_by="topic"), rows, model=model)
    for size in (1, 5, 16):
        monkeypatch.setattr(job, "CHUNK_ROWS", size)
        parts = ak.score(make_task(group_by="topic"), rows, model=model)
        assert parts.tasks["quiz"].metrics == whole.tasks["quiz"].metrics
        assert parts.tasks["quiz"].totals == whole.tasks["quiz"].totals


def test_recorded_completions_say_in_which_order_they_were_asked() -> None:
    """A column `option_order` names at each place the option of the dataset that stood there."""
    replies: list[dict[str, object]] = [
        {"sample_id": "000001", "option_order": ["C", "A", "B"], "completion": "B"},
        {"sample_id": "000001", "option_order": "ABC", "completion": "A"},
        {"sample_id": "000002", "option_order": [3, 2, 1, 0], "completion": "C"},
        {"sample_id": "000003", "option_order": None, "completion": "A"},
    ]
    run = ak.score(make_task(), ROWS, replies)
    numbers = read_numbers(run)
    assert numbers["Accuracy"] == pytest.approx(2 / 3)
    assert (numbers["order_all_right"], numbers["order_consistency"]) == (1.0, 1.0)
    ids = run.tasks["quiz"].scores["sample_id"].to_list()
    assert ids == ["000001~1", "000001", "000002", "000003"]


@pytest.mark.parametrize("order", ["ABD", ["A", "A", "B"], "AB"])
def test_an_order_that_is_none_is_refused(order: object) -> None:
    """Each choice stands in it once."""
    rows = [{"sample_id": "000001", "option_order": order, "completion": "A"}]
    with pytest.raises(AnswerkeyError, match="not an order of the choices"):
        ak.score(make_task(), ROWS[:1], rows)


def test_completions_without_an_order_are_refused() -> None:
    """Without the order, the option behind a letter is unknown.

    In the order of the file it is the letter itself.
    """
    with pytest.raises(AnswerkeyError, match="E209"):
        ak.score(make_task(), ROWS, ["A", "B", "B"])
    assert read_numbers(ak.score(make_task("original"), ROWS, ["A", "B", "B"]))["order_mean"] == 1.0


def test_what_a_run_exports_can_be_scored_again(write: Write, call: Called) -> None:
    """The exported rows have the order in which each was asked."""
    project = write("shuffled")
    folder, task, rows = project.folder, project.folder / "task.yaml", project.folder / "rows.jsonl"
    run = project.run(model="builtin/simulated?seed=4")
    for form in ("jsonl", "csv", "parquet"):
        file = folder / f"said.{form}"
        assert call("export", folder / "run", "--to", form, "-o", file).code == 0
        again = ak.run(task, dataset=rows, completions=file, out=folder / form)
        assert again.metrics == run.metrics
    assert ak.rescore(run, out=folder / "again").metrics == run.metrics
    # Completions belong to the order of their prompts.
    with pytest.raises(AnswerkeyError, match="E507"):
        ak.rescore(run, make_task("original"), out=folder / "other")


def test_runs_in_other_orders_are_compared_by_sample(write: Write) -> None:
    """The means over the orders are paired, and truths are compared by their option."""
    runs = [write(orders).run(orders, model=SAYS_A) for orders in ("rotations", "original")]
    pair = ak.compare(*runs).tasks[0].pairs[0]
    assert pair.difference.n == 3
    assert pair.difference.value == pytest.approx((1 / 3 + 1 / 4) / 3 - 1 / 3)


def test_the_dry_run_counts_every_order(write: Write) -> None:
    """Calls are those of all orders and trials; samples those of the dataset."""
    folder = write(trials={"num_trials": 2}).folder
    planned = plan_calls(folder / "task.yaml", dataset=folder / "rows.jsonl", model=SAYS_A).tasks[0]
    assert (planned.samples, planned.prompts, planned.calls) == (3, 16, 16)


def test_rows_whose_options_cannot_be_moved_are_errors(write: Write) -> None:
    """They are told before anything is asked, once each, and may be FAILED."""
    odd = {"question": "q4", "options": ["x", None], "answer": "A", "topic": "x"}
    project = write(rows=[*ROWS, odd])
    with pytest.raises(AnswerkeyError, match="E213") as caught:
        project.run(model=SAYS_A)
    assert caught.value.where
    assert caught.value.where.line == 4
    run = project.run("two", allow_failed="1", model=SAYS_A)
    assert run.metrics["order_mean"].n_excluded == {"failed": 1, "not_reordered": 1}


def test_all_orders_of_too_many_options_and_ids_that_look_like_orders_are_refused() -> None:
    """The error says how many orders there would be.

    No sample is called as another one in some order.
    """
    row = {"question": "q", "options": list("uvwxyz"), "answer": "A"}
    scorer = {**SCORER, "choices": list("ABCDEF")}
    with pytest.raises(AnswerkeyError, match="720 orders, and `all` shows at most 120"):
        always_first([row], "all", scorers=[scorer])
    with pytest.raises(AnswerkeyError, match="E208"):
        always_first([{**ROWS[0], "sample_id": "a"}, {**ROWS[0], "sample_id": "a~1"}])


EQUALS = {"type": "string_equals", "ground_truth": "A"}
TRACE = {"type": "pass_through_solver", "trace_column": "topic"}


def order_by(options: str, **orders: str) -> dict[str, Any]:
    """Return a change of the setting."""
    return {"choice_order": {"options": f"{{{{ sample.{options} }}}}", **orders}}


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"scorers": [EQUALS]}, "E108", "moves the options"),
        (order_by("options", orders="some"), "E108", "`orders` is"),
        (order_by("options"), "E108", "`orders` is missing"),
        (order_by("options[:2]", orders="all"), "E108", "only read"),
        (order_by("x", orders="all"), "E206", "reads the column `x`"),
        ({"solver": TRACE}, "E108", "in their original order"),
    ],
)
def test_what_does_not_follow_the_order_is_refused(
    write: Write, changes: dict[str, Any], code: str, message: str
) -> None:
    """A scorer that would read the wrong truth, and a setting that cannot be carried out, are
    errors.
    """
    folder = write(**changes).folder
    errors = ak.check(folder / "task.yaml", dataset=str(folder / "rows.jsonl")).errors
    assert any(error.code == code and message in error.message for error in errors), errors


def test_the_summary_says_what_the_order_does() -> None:
    """It names the orders, the numbers, the recalls, and what was left in place."""
    summary = str(always_first())
    assert "choice order  rotations: 3 samples, 8 rows" in summary
    assert "right in all orders (circular)       0.00 %" in summary
    assert "RStd of the recalls: 43.3013 points" in summary
    assert "1 sample left in place: an option names the letters of others" in summary
