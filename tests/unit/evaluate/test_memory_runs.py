"""Laws of runs whose samples are in memory: what can be done with a run folder can be done with
them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.projects import SCORER, describe_solver, describe_task, write_rows

import answerkey as ak

TASK = describe_task(scorers=[SCORER])
ROWS: list[dict[str, Any]] = [
    {"question": "one?", "answer": "A", "subject": "art", "mixed": 1, "latency": "own"},
    {"question": "two?", "answer": "B", "subject": "law", "mixed": "1", "latency": "own"},
    {"question": "three?", "answer": "B", "subject": "law", "mixed": None, "latency": "own"},
]
SAID = ["A", "The answer is B", "C"]
COLUMNS = """
    sample_id trial question answer subject mixed sample.latency run task model
    completion completion_status completion_error reasoning finish_reason prompt
    prompt_tokens completion_tokens reasoning_tokens cached_tokens cache_write_tokens
    latency cost imported_score imported_answer
"""
VERDICT = """
    status reason excluded_by is_correct completion_validity validity_reason
    predicted_choice ground_truth_choice choices extraction_rule
"""
#: What the default rule gives: right, not read, not read.
RIGHT = [1.0, 0.0, 0.0]


def use_rule(rule: str) -> dict[str, Any]:
    """Return the task with another rule."""
    return describe_task(scorers=[{**SCORER, "extraction": rule}])


def test_a_frame_has_the_row_the_completion_and_every_verdict() -> None:
    """In this order; a column with a reserved name gets the prefix `sample.`."""
    frame = ak.score(TASK, ROWS, SAID).to_frame()
    scored = [name for name in frame.columns if name.startswith("string_equals_mcqa.")]
    assert frame.columns == [*COLUMNS.split(), *scored]
    assert [name.partition(".")[2] for name in scored] == VERDICT.split()
    assert frame["sample_id"].to_list() == ["000001", "000002", "000003"]
    assert frame["completion"].to_list() == SAID
    assert frame["mixed"].to_list() == ["1", '"1"', None]
    assert frame["string_equals_mcqa.is_correct"].to_list() == RIGHT


def test_a_frame_of_hostile_names_loses_no_column() -> None:
    """Whatever columns are called, each is there once."""
    ours = "string_equals_mcqa.status"
    names = ["completion", "sample.completion", "sample.sample.completion", ours, "*", "^a$"]
    row: dict[str, Any] = {**dict.fromkeys(names, "x"), "answer": "A", "sample_id": "s1"}
    frame = ak.score(TASK, [row], ["A"]).to_frame()
    renamed = [f"sample.{name}" for name in names[:4]]
    assert frame.columns[:9] == ["sample_id", "trial", *renamed, "*", "^a$", "answer"]
    assert frame.select(pl.col("sample_id"), pl.col("completion")).row(0) == ("s1", "A")


def test_a_frame_has_a_row_for_each_trial_and_scorer_values_of_both() -> None:
    """Two scorers have columns of their own, and a sample as many rows as it has trials."""
    second = {**SCORER, "key": "strict", "extraction": "first_character_literal"}
    task = describe_task(scorers=[SCORER, second], trials={"num_trials": 2})
    texts = [{"sample_id": f"{1 + n // 2:06}", "trial": n % 2, "completion": "A"} for n in range(6)]
    frame = ak.score(task, ROWS, texts).to_frame()
    assert frame["trial"].to_list() == [0, 1] * 3
    assert frame["strict.is_correct"].to_list() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    assert frame["string_equals_mcqa.is_correct"].to_list() == frame["strict.is_correct"].to_list()


def test_a_run_of_several_tasks_has_a_frame_for_each(tmp_path: Path) -> None:
    """`run.to_frame()` would not know which; each task has its own."""
    rows = tmp_path / "rows.jsonl"
    write_rows(rows, [{**row, "completion": "A"} for row in ROWS])
    tasks = [TASK, {**TASK, "key": "other"}]
    source = {"type": "local", "file_path": str(rows)}
    dataset = {"key": "rows", "display_name": "Rows", "source": source}
    run = ak.run({"datasets": [dataset], "tasks": tasks}, out=tmp_path / "run", allow_outside=True)
    with pytest.raises(
        ak.RunError, match=r"has 2 tasks .*`to_frame` is ambiguous(.|\n)*run.tasks\[key\].to_frame"
    ):
        run.to_frame()
    assert run.tasks["other"].to_frame().height == 3


def test_a_saved_run_is_the_same_run(tmp_path: Path, call: Any) -> None:  # noqa: ANN401 - the command line
    """Its numbers, tables and samples are in the folder, and every command reads it."""
    run = ak.score(TASK, ROWS, SAID)
    saved = run.save(tmp_path / "run")
    loaded = ak.load_run(tmp_path / "run")
    assert saved.path == loaded.path == tmp_path / "run"
    assert (run.path, loaded.status, loaded.metrics) == (None, "complete", run.metrics)
    assert [set(made.to_frame()["run"]) for made in (loaded, run)] == [{"run"}, {None}]
    assert loaded.to_frame().drop("run").equals(run.to_frame().drop("run"))
    again = ("--out", str(tmp_path / "again"))
    for command, *words in (("show",), ("audit",), ("export", "--to", "csv"), ("rescore", *again)):
        called = call(command, tmp_path / "run", *words)
        assert (called.code, "error" in called.err) == (0, False), called.err
    assert "three?" in call("explain", tmp_path / "run", "3").out


def test_a_saved_run_can_be_saved_again_and_a_changed_one_not(tmp_path: Path) -> None:
    """A copy is the run, times and all.

    A part that is not what the run wrote is E503 there, too.
    """
    first = ak.score(TASK, ROWS, SAID).save(tmp_path / "first")
    copied = first.save(tmp_path / "copy")
    assert copied.manifest == ak.load_run(tmp_path / "first").manifest
    assert copied.to_frame().drop("run").equals(first.to_frame().drop("run"))
    with pytest.raises(ak.RunError, match=r"E502.*already exists and is not empty"):
        first.save(tmp_path / "copy")
    part = tmp_path / "first" / "tasks" / "quiz" / "samples" / "part-00000.parquet"
    content = part.read_bytes()
    part.write_bytes(content[:9] + bytes([content[9] ^ 255]) + content[10:])
    with pytest.raises(ak.RunError, match=r"E503.*has changed since the run ended"):
        ak.load_run(tmp_path / "first").save(tmp_path / "third").to_frame()


def test_samples_in_a_folder_of_a_stranger_are_read_without_trust(tmp_path: Path) -> None:
    """A file that should be JSON and is not is E503, even if its hash is in the list of files."""
    ak.score(TASK, ROWS, SAID).save(tmp_path / "run")
    (file,) = (tmp_path / "run" / "tasks" / "quiz" / "samples").glob("*.parquet")
    for wrong in ("{", "3", "[1]", None):
        cells = pl.Series("sample", [wrong] * len(ROWS), dtype=pl.String)
        cells.to_frame().write_parquet(file)
        manifest = json.loads((tmp_path / "run" / "run.json").read_text())
        manifest.pop("files", None)
        (tmp_path / "run" / "run.json").write_text(json.dumps({**manifest, "status": "running"}))
        with pytest.raises(ak.RunError, match=r"E503.*cannot read"):
            ak.load_run(tmp_path / "run").to_frame()


def test_a_run_in_memory_is_scored_again_in_memory(tmp_path: Path) -> None:
    """By another rule, and by its own; with `out` the new run is written."""
    run = ak.score(TASK, ROWS, SAID)
    again = ak.rescore(run, use_rule("stated_answer"))
    assert again.path is None
    assert again.metrics["Accuracy"].value == pytest.approx(2 / 3)
    assert ak.rescore(again, use_rule("first_character")).to_frame().equals(run.to_frame())
    assert ak.rescore(run, out=tmp_path / "run").path == tmp_path / "run"
    written = ak.rescore(tmp_path / "run", out=tmp_path / "new").to_frame()
    assert written.drop("run").equals(run.to_frame().drop("run"))


def test_runs_in_memory_are_compared_audited_explained_and_reported(tmp_path: Path) -> None:
    """As runs in folders are, with the categories of their samples."""
    run, second = ak.score(TASK, ROWS, SAID), ak.score(TASK, ROWS, ["A", "B", "B"])
    (pair,) = ak.compare(run, second, by="subject").pairs
    assert (pair.second_only, set(pair.categories)) == (("000002", "000003"), {"art", "law"})
    assert ak.audit(run).notices == ()
    (way,) = ak.explain(run, 2).samples
    seen = (way["run"], way["sample"]["question"], way["completion"])
    assert seen == (None, "two?", "The answer is B")
    assert "'T', is not one of the choices" in str(ak.explain(run, "000002"))
    written = ak.report([run, second], tmp_path / "both.html")
    assert (written["runs"], written["rows"]) == (2, 6)
    assert "three?" in (tmp_path / "both.html").read_text(encoding="utf-8")
    assert ak.report(run, tmp_path / "one.html", max_samples=1)["embedded"] == 1


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "every_eval_ever"])
def test_a_run_in_memory_is_exported_as_a_saved_one(tmp_path: Path, form: str) -> None:
    """Every form, to a file that is named."""
    run = ak.score(TASK, ROWS, SAID)
    assert ak.export(run, form, tmp_path / "a").rows == 3
    assert ak.export(run.save(tmp_path / "quiz"), to=form, path=tmp_path / "b").rows == 3
    if form == "parquet":
        first, second = (pl.read_parquet(tmp_path / name).drop("run") for name in "ab")
        assert first.equals(second)
    else:
        in_memory, saved = ((tmp_path / name).read_text() for name in "ab")
        in_memory = in_memory.replace('"run": null', '"run": "quiz"')
        assert in_memory.replace(",,quiz,", ",quiz,quiz,") == saved
    near = r"E119.*unknown form(.|\n)*did you mean `jsonl`"
    with pytest.raises(ak.SpecError, match=near):
        ak.export(run, "json", tmp_path / "c")


def test_orders_that_completions_state_are_known_again() -> None:
    """In which order the options stood is told by the scores.

    Where a sample failed, that is E505.
    """
    order = {"options": "{{ sample.options }}", "orders": "rotations"}
    task = describe_task(choice_order=order, scorers=[SCORER])
    rows = [{"options": ["x", "y"], "answer": "A"}, {"options": ["u", "v"], "answer": "B"}]
    replies = []
    for order_text, number in (("BA", 1), ("AB", 1), ("AB", 2), ("BA", 2)):
        reply = {"sample_id": f"00000{number}", "option_order": order_text, "completion": "A"}
        replies.append(reply)
    run = ak.score(task, rows, replies)
    frame = run.to_frame()
    assert frame["option_order"].to_list() == [[1, 0], [0, 1], [0, 1], [1, 0]]
    assert frame["options"].to_list() == [["y", "x"], ["x", "y"], ["u", "v"], ["v", "u"]]
    assert ak.rescore(run).to_frame().equals(frame)
    failed = ak.score(task, [{**rows[0], "answer": "Z"}, rows[1]], replies, allow_failed=2)
    unknown = "E505.*in which order a sample was shown that failed is not known"
    with pytest.raises(ak.RunError, match=unknown):
        failed.to_frame()


def test_a_file_of_samples_is_referred_to_and_not_copied(tmp_path: Path) -> None:
    """What is in a file stays there: a saved run has no samples of its own, and names the file."""
    file = tmp_path / "rows.jsonl"
    write_rows(file, ROWS)
    run = ak.score(TASK, file, SAID).save(tmp_path / "run")
    assert not (tmp_path / "run" / "tasks" / "quiz" / "samples").exists()
    assert run.manifest["tasks"][0]["dataset"]["file"] == str(file)
    assert run.to_frame()["question"].to_list() == ["one?", "two?", "three?"]


def test_some_samples_are_scored(tmp_path: Path) -> None:
    """`num_samples` holds for tables as for files.

    A saved run has them all, and uses those again.
    """
    run = ak.score(TASK, ROWS, SAID, num_samples=2)
    assert run.tasks["quiz"].counts["samples"] == 2
    assert run.save(tmp_path / "run").to_frame()["question"].to_list() == ["one?", "two?"]


def test_a_table_may_be_the_dataset_of_a_run(tmp_path: Path) -> None:
    """The run keeps it, so that it can be looked at, scored again and gone on with."""
    task = describe_task(scorers=[SCORER], solver=describe_solver())
    frame = pl.LazyFrame(ROWS, strict=False)
    run = ak.run(task, dataset=frame, model="builtin/constant?choice=B", out=tmp_path / "r")
    assert run.manifest["file"] is None
    assert run.metrics["Accuracy"].value == pytest.approx(2 / 3)
    questions = ak.load_run(tmp_path / "r").to_frame()["question"].to_list()
    assert questions == ["one?", "two?", "three?"]
    assert ak.check(task, dataset=ROWS, model="builtin/random").errors == ()
    with pytest.raises(ak.DataError, match=r"E202.*`dataset` is a value of type int, not a list"):
        ak.run(task, dataset=3, model="builtin/random")  # type: ignore[arg-type]  # what is tested
    instead = r"`completions` is of type `list`: give a file, or use `ak\.score`"
    with pytest.raises(TypeError, match=instead):
        ak.run(task, dataset=ROWS, completions=SAID)  # type: ignore[arg-type]  # what is tested


def test_the_questions_of_a_table_are_audited() -> None:
    """As those of a file; an option that does not exist is told."""
    rows = [{"question": "Same?", "options": ["x", "y"], "answer": "A"}] * 4
    (audit,) = ak.audit_dataset(pl.DataFrame(rows))
    assert audit.name == "samples"
    near = "`audit_dataset` has no option `colums`; did you mean `columns`"
    with pytest.raises(TypeError, match=near):
        ak.audit_dataset(rows, colums={})  # type: ignore[call-arg]  # what is tested
