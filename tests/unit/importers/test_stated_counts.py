"""A log that states how many samples it has is held to that.

What is cut off, empty or unreadable is told.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.importers import test_helm, test_predictions, test_promptfoo

from answerkey.errors import AnswerkeyError
from answerkey.importers import Imported, import_log

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

LOGS = Path(__file__).parent / "logs"
SHARED = Path(__file__).parents[4] / "shared" / "data" / "real_logs"
TIME = "2026-11-16T00-12-21.468220"


def copy_lm_eval(desk: Desk) -> Path:
    """Copy a run of lm-eval with two tasks of eight samples."""
    return Path(shutil.copytree(LOGS / "lm-eval", desk.folder / "run"))


def drop_lines(path: Path, keep: int) -> None:
    """Cut a file off behind some lines."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:keep]), encoding="utf-8")


@pytest.mark.parametrize("keep", [0, 5])
def test_lm_eval_samples_that_are_cut_off_are_an_error(desk: Desk, keep: int) -> None:
    """The results file says how many there were; `--allow-failed` takes what is there."""
    run = copy_lm_eval(desk)
    drop_lines(run / f"samples_made_rank_{TIME}.jsonl", keep)
    error = desk.refuse(
        f"`made_rank`: `results_{TIME}.json` states 8 samples, but the log holds {keep}\n", run
    )
    assert error.code == "E202"
    assert error.hint == f"copy the log again, or import the rest with `--allow-failed {8 - keep}`"
    result = desk.bring(run, allow_failed=str(8 - keep))
    assert [task.samples for task in result.tasks] == ([keep, 8] if keep else [8])


def test_one_samples_file_is_held_to_the_results_beside_it(desk: Desk) -> None:
    """Both filters of a task are in the file; only the rows of one of them are counted."""
    samples = copy_lm_eval(desk) / f"samples_made_text_{TIME}.jsonl"
    assert desk.bring(samples).samples == 8
    drop_lines(samples, 3)
    desk.refuse("states 8 samples, but the log holds 3", samples)


def test_lm_eval_results_that_cannot_be_read_are_told(desk: Desk) -> None:
    """With the file and why: it says how many samples there were."""
    run = copy_lm_eval(desk)
    results = run / f"results_{TIME}.json"
    results.write_text(results.read_text()[:100])
    drop_lines(run / f"samples_made_rank_{TIME}.jsonl", 0)
    assert str(desk.refuse("not valid JSON", run).where).endswith(f"run/results_{TIME}.json")
    assert "task `made_rank`: the log holds no samples of it, so it is left out" in {
        notice.message for notice in desk.bring(run, allow_failed="1").notices
    }


def test_a_task_of_the_results_without_samples_is_told(desk: Desk) -> None:
    """It would be missing from the import otherwise."""
    run = copy_lm_eval(desk)
    (run / f"samples_made_rank_{TIME}.jsonl").unlink()
    message = "the log has no samples of some tasks in its results file: `made_rank`"
    assert message in {notice.message for notice in desk.bring(run).notices}


def test_a_score_that_a_task_has_not_is_refused(desk: Desk) -> None:
    """The task would be left out in silence otherwise."""
    run = copy_lm_eval(desk)
    error = desk.refuse(
        "task `made_rank` has no score `exact_match,loose`", run, score="exact_match,loose"
    )
    assert error.hint == "its scores: `exact_match,none`; `--task NAME` selects one task"
    assert (
        desk.bring(run, score="exact_match,loose", task="made_text").tasks[0].imported_mean == 0.75
    )
    desk.refuse("the log has no score `nonsense`", run, score="nonsense")


def test_an_inspect_log_with_fewer_samples_than_its_header_states_is_an_error(desk: Desk) -> None:
    """Each epoch counts; a log of an interrupted run may have fewer."""
    log = json.loads((LOGS / "inspect.json").read_text(encoding="utf-8"))
    log["samples"] = [sample for sample in log["samples"] if sample["epoch"] == 1]
    path = desk.json("log.json", log)
    desk.refuse("its header states 16 samples, but the log holds 8", path)
    assert desk.bring(path, allow_failed="8").tasks[0].num_trials == 1
    desk.json("log.json", log | {"status": "cancelled"})
    assert desk.bring(path).notices[0].message == "the log has the status `cancelled`"


def test_a_helm_run_is_held_to_its_statistics(desk: Desk) -> None:
    """`per_instance_stats.json` names every instance."""
    verdicts = [test_helm.stats(1, 1.0), test_helm.stats(2, 0.0)]
    run = test_helm.write_run(desk, [test_helm.state(1)], verdicts)
    desk.refuse("`per_instance_stats.json` states 2 samples, but the log holds 1", run)


def test_promptfoo_rows_are_held_to_the_counts_of_their_prompt(desk: Desk) -> None:
    """Also in YAML that is cut off, which is valid all the same.

    Lines have only the numbers of the tests.
    """
    rows = [test_promptfoo.row(number) for number in range(3)]
    whole = test_promptfoo.whole(*rows)
    whole["results"]["prompts"] = [
        {"metrics": {"testPassCount": 2, "testFailCount": 2, "testErrorCount": 1}}
    ]
    message = "its list of prompts states 5 rows, but the log holds 3"
    desk.refuse(message, desk.json("res.json", whole))
    log = desk.write("res.yaml", f"evalId: x\nresults: {json.dumps(whole['results'])}\n")
    desk.refuse(message, log)
    result = desk.bring(desk.lines("res.jsonl", [rows[0], rows[2]]))
    assert result.notices[0].message == "`testIdx` goes up to 2, but the log holds 2 of 3 tests"


def test_a_gap_in_the_questions_of_opencompass_is_told(desk: Desk) -> None:
    """It is an error where the results have the question that is missing."""
    rows = {
        number: {"origin_prompt": test_predictions.PROMPT, "prediction": "B", "gold": "B"}
        for number in "023"
    }
    desk.json("run/predictions/m/arc.json", rows)
    assert "`arc`: questions are numbered up to 3, but 1 are missing" in {
        notice.message for notice in desk.bring(desk.folder / "run").notices
    }
    details = [{"pred": ["B"], "refr": ["B"], "correct": True} for _ in range(4)]
    desk.json("run/results/m/arc.json", {"accuracy": 100.0, "details": details})
    desk.refuse("the file of results states 4 samples, but the log holds 3", desk.folder / "run")


def test_evalscope_is_held_to_its_report(desk: Desk) -> None:
    """It states how many samples each set has."""
    predictions = [test_predictions.prediction(0), test_predictions.prediction(1)]
    run = test_predictions.write_run(
        desk, predictions=predictions, reviews=[test_predictions.review(0)]
    )
    subsets = [{"name": "easy", "num": 3}, {"name": "hard", "num": 2}]
    desk.json(
        "run/reports/some-model/arc.json", {"metrics": [{"categories": [{"subsets": subsets}]}]}
    )
    error = desk.refuse("`arc_easy`: the report states 3 samples, but the log holds 2", run)
    assert error.code == "E202"


def test_every_eval_ever_is_held_to_its_file_of_numbers(desk: Desk) -> None:
    """`total_rows` counts the lines."""
    row: dict[str, Any] = {
        "schema_version": "0.3.0",
        "evaluation_id": "e",
        "sample_id": "1",
        "answer_attribution": [],
    }
    row["input"] = {"raw": "?", "choices": ["x", "y"], "reference": ["x"]}
    row["output"] = {"raw": ["A"]}
    desk.lines("run/one_samples.jsonl", [row])
    for name, total in (("one", 2), ("two", 5)):
        numbers = {"schema_version": "0.3.0", "detailed_evaluation_results": {"total_rows": total}}
        desk.json(f"run/{name}.json", numbers)
    message = "the file of results states 2 rows, but the log holds 1"
    desk.refuse(message, desk.folder / "run", "every_eval_ever")
    desk.refuse(message, desk.folder / "run" / "one_samples.jsonl")


def test_an_evidence_log_is_held_to_its_count_of_samples(desk: Desk) -> None:
    """`failures.num_total` counts all of them."""
    log = json.loads((LOGS / "evidence-quiz.json").read_text(encoding="utf-8"))
    del log["evidence"]["samples"][2]
    desk.refuse(
        "`failures.num_total` states 6 samples, but the log holds 5", desk.json("log.json", log)
    )


# ── any file of any log, broken in any of these ways

BREAKS: dict[str, Callable[[bytes], bytes]] = {
    "is empty": lambda _: b"",
    "is no JSON": lambda _: b"garbage",
    "is cut at half of its lines": lambda raw: b"".join(
        (lines := raw.splitlines(keepends=True))[: len(lines) // 2]
    ),
    "is cut in the middle": lambda raw: raw[: len(raw) // 2],
    "lacks a line": lambda raw: b"".join((lines := raw.splitlines(keepends=True))[:1] + lines[2:]),
    "has zeros": lambda raw: raw[: len(raw) // 2] + bytes(64) + raw[len(raw) // 2 + 64 :],
}


def list_files() -> Iterator[tuple[Path, Path]]:
    """Yield each text file of each log at hand, with its log.

    Those of real tools in the long series.
    """
    folders, alone = [LOGS / "lm-eval"], sorted(LOGS.glob("*.json"))
    if os.environ.get("ANSWERKEY_LONG"):
        logs = sorted(path for path in SHARED.glob("*") if path.is_dir())
        folders += [path for path in logs if path.name not in {"inspect", "promptfoo"}]
        # A CSV file has no count of its rows.
        alone += [*SHARED.glob("inspect/*.json"), *SHARED.glob("promptfoo/out1.[jy]*")]
    for folder in folders:
        for file in sorted(folder.rglob("*.json*")):
            yield folder, file
    for file in alone:
        yield file, file


def summarise(result: Imported) -> list[tuple[Any, ...]]:
    """Return the numbers of an import."""
    return [
        (task.key, task.samples, task.num_trials, task.judged, task.imported_mean)
        for task in result.tasks
    ]


@pytest.mark.parametrize(
    ("log", "file"), [pytest.param(*pair, id=pair[1].name[:40]) for pair in list_files()]
)
def test_no_broken_file_changes_a_number_in_silence(tmp_path: Path, log: Path, file: Path) -> None:
    """The numbers are the same, or the import is refused, or it has a notice that the sound log has
    not.
    """
    sound = import_log("auto", log, out=tmp_path / "sound")
    messages = Counter(notice.message for notice in sound.notices)
    silent = []
    for name, change in BREAKS.items():
        copy = tmp_path / name / log.name
        if log.is_dir():
            shutil.copytree(log, copy, copy_function=shutil.copyfile)
        else:
            copy.parent.mkdir()
        target = copy / file.relative_to(log)
        target.write_bytes(change(file.read_bytes()))
        try:
            result = import_log("auto", copy, out=tmp_path / name / "out")
        except AnswerkeyError:
            continue
        notices = Counter(notice.message for notice in result.notices)
        if summarise(result) != summarise(sound) and not notices - messages:
            silent.append(name)
    assert silent == []
