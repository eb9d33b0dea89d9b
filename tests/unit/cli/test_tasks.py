from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answerkey.spec.ready_made import list_ready_made

Call = Callable[..., Any]
RAW = "1+1?,1,2,3,4,B\n2+2?,1,2,3,4,D\n"


@pytest.fixture
def raw() -> Path:
    """Return a folder with a raw file of MMLU."""
    folder = Path("data")
    folder.mkdir()
    (folder / "sums_test.csv").write_text(RAW)
    return folder


def test_tasks_lists_what_is_ready(call: Call) -> None:
    """Name, questions, options, chance, language and licence of each."""
    listed = call("tasks")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == list_ready_made()
    assert "mmlu_pro           12,032  1 to 10  11.12 %  en" in listed.out
    assert listed.err == "next: answerkey tasks show NAME\n"


@pytest.mark.parametrize("words", [("show", "mmlu"), ("mmlu",), ("show", "MMLU")])
def test_tasks_shows_one(call: Call, words: tuple[str, ...]) -> None:
    """Its citation, licence, data and config, and commands to begin with."""
    shown = call("tasks", *words).out
    for part in (
        "chance      25.00 %",
        "category    column `subject`",
        "arXiv:2009.03300",
        "licence     MIT",
        "on the hub  cais/mmlu, all, test",
        "CSV without a header line",
        "extraction  first_character",
        "answerkey run mmlu --model openai/gpt-4.1-nano",
    ):
        assert part in shown


def test_tasks_as_json(call: Call) -> None:
    """All of them, or the one that is named."""
    told = call("tasks", "--json").json["tasks"]
    assert [one["name"] for one in told] == list_ready_made()
    (one,) = call("tasks", "show", "arc", "--json").json["tasks"]
    assert (one["chance"], one["category"], one["licence"]) == (0.2502, "category", "CC BY-SA 4.0")
    assert one["hub"] == {"path": "allenai/ai2_arc", "name": "ARC-Challenge", "split": "test"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "mlu"), "error[E113]: there is no ready-made task `mlu`"),
        (("show",), "error[E119]: `tasks show` shows one task"),
        (("mmlu", "arc"), "error[E119]: `tasks show` shows one task"),
    ],
)
def test_a_name_that_there_is_not_is_refused(call: Call, words: tuple[str, ...], message: str) -> None:
    """Exit code 2, with what was probably meant."""
    refused = call("tasks", *words)
    assert refused.code == 2
    assert refused.err.startswith(message)


def test_a_ready_made_task_is_run_by_its_name(call: Call, raw: Path) -> None:
    """Checked, run and scored like any task file; its groups are the subjects."""
    assert call("check", "mmlu", "--dataset", raw).code == 0
    model = ("--model", "builtin/constant?choice=B")
    (task,) = call("run", "mmlu", "--dataset", raw, *model, "--out", "out", "--json", "-q").json["tasks"]
    assert task["metrics"][0]["value"] == 0.5
    (groups,) = task["metrics"][0]["groups"]
    assert [(one["group"], one["n"]) for one in groups["values"]] == [("sums", 2)]
    Path("said.jsonl").write_text('{"completion": "B"}\n{"completion": "D"}\n')
    words = ("score", "mmlu", "--dataset", raw, "--completions", "said.jsonl", "--out", "scored")
    (task,) = call(*words, "--json", "-q").json["tasks"]
    assert task["metrics"][0]["value"] == 1.0
    assert call("explain", "scored", "2").code == 0
    assert "sums_test.csv:2" in call("explain", "scored", "2").out


def test_the_questions_of_a_ready_made_task_are_audited(call: Call, raw: Path) -> None:
    """`audit-dataset` takes its name, and finds the parts of a question by its scorer."""
    audited = call("audit-dataset", "mmlu", "--dataset", raw)
    assert audited.code == 0
    assert "25.00 %" in audited.out


def test_init_takes_a_ready_made_task_as_a_project(call: Call, raw: Path) -> None:
    """Three files to change, and their schemas; it runs at once."""
    made = call("init", "mine", "--task", "mmlu", "--dataset", raw)
    assert made.code == 0
    assert made.out.splitlines()[:3] == ["mine/run.yaml", "mine/task.yaml", "mine/dataset.yaml"]
    assert call("run", "mine", "--out", "out", "-q").code == 0
    refused = call("init", "other", "--dataset", raw)
    assert "error[E119]: `--dataset` is of a ready-made task" in refused.err


def test_init_names_the_schema_of_each_file(call: Call) -> None:
    """The first line of a YAML file leads editors to a file of the project."""
    call("init", "mine")
    for kind in ("task", "run", "dataset"):
        first = Path(f"mine/{kind}.yaml").read_text(encoding="utf-8").splitlines()[0]
        assert first == f"# yaml-language-server: $schema=.schemas/{kind}.json"
        assert Path(f"mine/.schemas/{kind}.json").is_file()
    assert call("check", "mine").code == 0


def test_several_files_are_checked_one_by_one(call: Call) -> None:
    """As a hook does before a commit; the worst of them decides."""
    call("init", "good")
    Path("bad").mkdir()
    Path("bad/run.yaml").write_text("tasks: 5\n")
    both = call("check", "good/run.yaml", "bad/run.yaml")
    assert both.code == 2
    assert both.out.splitlines()[0] == "good/run.yaml"
    assert "bad/run.yaml" in both.out
    told = call("check", "good/run.yaml", "bad/run.yaml", "--json").json["checks"]
    assert [one["check"]["good"] for one in told] == [True, False]
