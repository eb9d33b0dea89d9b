"""Laws of runs that are gone on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.runs import reopen_run

TASK: dict[str, Any] = {
    "key": "quiz",
    "display_name": "Quiz",
    "description": "Some questions.",
    "definition": {
        "solver": {
            "type": "single_turn_solver",
            "input_builder": {
                "type": "chat_completion",
                "input_messages": [{"role": "user", "content": "{{ sample.question }}"}],
            },
        },
        "scorers": [
            {
                "type": "string_equals_mcqa",
                "ground_truth_choice": "{{ sample.answer }}",
                "choices": ["A", "B"],
            }
        ],
    },
}
ROWS = [{"question": f"q{number}", "answer": "AB"[number % 2]} for number in range(6)]
MODEL = "builtin/simulated?accuracy=0.5&style=mixed&seed=3"


def write_rows(file: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with a task file and its rows."""
    (tmp_path / "task.yaml").write_text(json.dumps(TASK))
    write_rows(tmp_path / "rows.jsonl", ROWS)
    return tmp_path


def stop(stage: str, done: int, total: int) -> None:
    """Interrupt a run when it has scored its first shard."""
    del done, total
    if stage == "score":
        raise KeyboardInterrupt


def interrupt(project: Path, **options: Any) -> Path:  # noqa: ANN401  # any option of a run
    """Return the folder of a run that was interrupted after its only shard."""
    dataset = str(project / "rows.jsonl")
    with pytest.raises(KeyboardInterrupt):
        ak.run(project / "task.yaml", dataset=dataset, out=project / "stopped", progress=stop, **options)
    return project / "stopped"


def read_results(folder: Path) -> dict[str, bytes]:
    """Return every file of a run but `run.json`, by its path below the folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "run.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(files)}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return `run.json` without its times and without the folder's own options."""
    manifest: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return {name: value for name, value in manifest.items() if name not in {"started_at", "ended_at"}}


def test_a_resumed_run_is_the_uninterrupted_one(project: Path) -> None:
    """Every file is the same, byte by byte, and so is what ran, times aside."""
    whole = ak.run(
        project / "task.yaml", dataset=str(project / "rows.jsonl"), model=MODEL, out=project / "whole"
    )
    stopped = interrupt(project, model=MODEL)
    assert ak.load_run(stopped).status == "incomplete"
    resumed = ak.resume(stopped)
    assert resumed.status == "complete"
    assert resumed.metrics == whole.metrics
    assert read_results(stopped) == read_results(project / "whole")
    assert read_manifest(stopped) == read_manifest(project / "whole")


def test_an_interrupted_run_says_how_to_go_on(project: Path) -> None:
    """What stopped it carries the command; the folder is free at once."""
    with pytest.raises(KeyboardInterrupt) as caught:
        ak.run(
            project / "task.yaml",
            dataset=str(project / "rows.jsonl"),
            model=MODEL,
            out=project / "stopped",
            progress=stop,
        )
    assert caught.value.__notes__ == [f"answerkey resume {project / 'stopped'}"]
    assert not (project / "stopped" / "lock").exists()


def test_the_task_is_the_one_that_was_started(project: Path) -> None:
    """A task file that was changed, or deleted, since changes nothing."""
    stopped = interrupt(project, model=MODEL)
    (project / "task.yaml").unlink()
    assert ak.resume(stopped).status == "complete"


def test_options_of_the_start_still_hold(project: Path) -> None:
    """Selection, allowance and config need not be given again."""
    write_rows(project / "rows.jsonl", [*ROWS[:3], {"question": "q", "answer": "Z"}, *ROWS[4:]])
    stopped = interrupt(project, model=MODEL, num_samples=5, allow_failed=1)
    counts = ak.resume(stopped).tasks["quiz"].counts
    assert (counts["samples"], counts["failed"]) == (5, 1)


def test_examples_are_picked_again(project: Path) -> None:
    """A run with examples from a second dataset is resumed with the same prompts; changed ones are E505."""
    pool = write_rows(project / "pool.jsonl", [{"question": f"p{n}", "answer": "A"} for n in range(5)])
    definition = {
        **TASK["definition"],
        "dataset": {"key": "rows"},
        "solver": {
            "type": "single_turn_solver",
            "examples": {"dataset": "pool", "num_examples": 2},
            "input_builder": {
                "type": "chat_completion",
                "input_messages": [{"role": "user", "content": "{{ examples }} {{ sample.question }}"}],
            },
        },
    }
    sources = {"rows": "rows.jsonl", "pool": "pool.jsonl"}
    run_file = {
        "tasks": [{**TASK, "definition": definition}],
        "datasets": [
            {"key": key, "display_name": key, "source": {"type": "local", "file_path": file}}
            for key, file in sources.items()
        ],
    }
    (project / "run.yaml").write_text(json.dumps(run_file))
    with pytest.raises(KeyboardInterrupt):
        ak.run(project, model=MODEL, out=project / "stopped", progress=stop)
    before = read_results(project / "stopped")["tasks/quiz/completions/part-00000.parquet"]
    rows = pool.read_text()
    write_rows(pool, [{"question": "other", "answer": "A"}] * 5)
    with pytest.raises(ak.RunError, match="examples cannot be opened again") as caught:
        ak.resume(project / "stopped")
    assert caught.value.code == "E505"
    pool.write_text(rows)
    assert ak.resume(project / "stopped").status == "complete"
    assert read_results(project / "stopped")["tasks/quiz/completions/part-00000.parquet"] == before


def test_trials_and_repetitions_are_resumed(project: Path) -> None:
    """All of them are there in the end, and the same."""
    source = {"type": "local", "file_path": "rows.jsonl"}
    wanted = {"task_key": "quiz", "model_key": MODEL, "repeatability": {"num_runs": 2}}
    plan = {
        "tasks": [{**TASK, "definition": {**TASK["definition"], "trials": {"num_trials": 2}}}],
        "datasets": [{"key": "rows", "display_name": "Rows", "source": source}],
        "evaluation": {"key": "e", "display_name": "E", "description": "", "task_specifications": [wanted]},
    }
    (project / "run.yaml").write_text(json.dumps(plan))
    ak.run(project, out=project / "whole")
    with pytest.raises(KeyboardInterrupt):
        ak.run(project, out=project / "stopped", progress=stop)
    ak.resume(project / "stopped")
    assert read_results(project / "stopped") == read_results(project / "whole")
    assert read_manifest(project / "stopped") == read_manifest(project / "whole")


def test_a_complete_run_is_left_as_it_is(project: Path) -> None:
    """Resuming it changes no byte, and returns it."""
    ak.run(project / "task.yaml", dataset=str(project / "rows.jsonl"), model=MODEL, out=project / "whole")
    before = (project / "whole" / "run.json").read_bytes()
    (project / "rows.jsonl").unlink()
    assert ak.resume(project / "whole").status == "complete"
    assert (project / "whole" / "run.json").read_bytes() == before


def test_a_run_without_run_json_starts_again(tmp_path: Path) -> None:
    """E507 says so; a folder that never was a run is E501."""
    (tmp_path / "run" / "tasks" / "quiz").mkdir(parents=True)
    with pytest.raises(ak.RunError, match=r"stopped before its `run.json` was written") as caught:
        ak.resume(tmp_path / "run")
    assert caught.value.code == "E507"
    with pytest.raises(ak.RunError) as other:
        ak.resume(tmp_path)
    assert other.value.code == "E501"


def test_a_run_in_use_is_refused(project: Path) -> None:
    """While a process holds the run, another cannot go on with it."""
    stopped = interrupt(project, model=MODEL)
    with reopen_run(stopped), pytest.raises(ak.RunError) as caught:
        ak.resume(stopped)
    assert caught.value.code == "E506"


def change_rows(project: Path) -> None:
    """Change the dataset."""
    write_rows(project / "rows.jsonl", [*ROWS[:-1], {"question": "other", "answer": "A"}])


def remove_rows(project: Path) -> None:
    """Delete the dataset."""
    (project / "rows.jsonl").unlink()


@pytest.mark.parametrize("spoil", [change_rows, remove_rows])
def test_a_dataset_that_has_changed_is_e505(project: Path, spoil: Callable[[Path], None]) -> None:
    """Half of one dataset and half of another is no result; the run stays as it was."""
    stopped = interrupt(project, model=MODEL)
    before = (stopped / "run.json").read_bytes()
    spoil(project)
    with pytest.raises(ak.RunError, match="dataset cannot be opened again") as caught:
        ak.resume(stopped)
    assert caught.value.code == "E505"
    assert (stopped / "run.json").read_bytes() == before


def test_recorded_completions_that_have_changed_are_e505(project: Path) -> None:
    """They are part of the run, too."""
    said = write_rows(project / "said.jsonl", [{"completion": "A"} for _ in ROWS])
    stopped = interrupt(project, completions=str(said), copy=True)
    write_rows(said, [{"completion": "B"} for _ in ROWS])
    with pytest.raises(ak.RunError, match="completions cannot be opened again") as caught:
        ak.resume(stopped)
    assert caught.value.code == "E505"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": None}, "which options it was started with"),
        ({"options": {"warp": 9}}, "options that it cannot decide: `warp`"),
        ({"options": {"trust_code": True}}, "options that it cannot decide: `trust_code`"),
        ({"options": {"allow_hosts": ["collector.example"]}}, "it cannot decide: `allow_hosts`"),
        ({"options": {"env": "evil.env"}}, "options that it cannot decide: `env`"),
        ({"rescored_from": {"path": "/old"}}, "`/old` is not the run any more that it scores again"),
    ],
)
def test_a_run_that_cannot_be_resumed_says_why(project: Path, change: dict[str, Any], message: str) -> None:
    """E507, whatever is missing."""
    stopped = interrupt(project, model=MODEL)
    manifest = json.loads((stopped / "run.json").read_text())
    (stopped / "run.json").write_text(json.dumps(manifest | change))
    with pytest.raises(ak.RunError, match=message) as caught:
        ak.resume(stopped)
    assert caught.value.code == "E507"


def test_what_decides_the_numbers_cannot_be_changed(project: Path) -> None:
    """Another model or dataset is another run."""
    stopped = interrupt(project, model=MODEL)
    with pytest.raises(ak.SpecError, match="`model` cannot be chosen") as caught:
        ak.resume(stopped, model="builtin/random")
    assert caught.value.code == "E119"
