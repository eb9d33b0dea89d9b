"""Laws of `show`, `explain`, `runs`, `export`, `report` and `view`; their texts are in
`tests/golden`.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.projects import write_rows

from .conftest import Call, start


@pytest.mark.parametrize("name", ["done", "small/done", "small/done/run.json", "latest"])
def test_a_run_is_found_by_folder_or_name(call: Call, run_folder: Path, name: str) -> None:
    """A path, the `run.json` in it, a name below `runs`, or the newest there.

    The folder alone is enough.
    """
    Path("runs").symlink_to(run_folder.parent)
    assert "  Accuracy  25.00 %  [4.56, 69.94]  4\n" in call("show", name).out
    assert call("show", name, "--json").json["run"]["status"] == "complete"


def test_explain_as_json(call: Call, project: Path, run_folder: Path) -> None:
    """The same as plain values.

    What the run folder holds is there without the dataset, with a warning.
    """
    (sample,) = call("explain", run_folder, "4", "--json").json["samples"]
    assert (sample["sample_id"], sample["completion"]) == ("000004", "\x1b[31mB")
    score = sample["scores"]["string_equals_mcqa"]
    assert (score["metadata"]["validity_reason"], score["why"][:7]) == ("NOT_A_CHOICE", "INVALID")
    (project / "rows.jsonl").unlink()
    shown = call("explain", run_folder, "000002")
    assert shown.code == 0
    assert "warning: The dataset of this run is gone or has changed" in shown.out
    assert "  validity_reason      PART_OF_A_WORD\n" in shown.out


def test_runs_lists_what_there_is(call: Call, run_folder: Path) -> None:
    """A table, one row each; a run folder is that run, a damaged one hides no other."""
    broken = run_folder.parent / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{", encoding="utf-8")
    shown = call("runs", run_folder.parent)
    assert shown.code == 0
    head, first, second = [" ".join(line.split()) for line in shown.out.splitlines()]
    assert head == "run started (UTC) status model n Accuracy"
    assert re.fullmatch(
        rf"{run_folder} 20[-0-9]+ [:0-9]+ complete dataset.* 4 25.00 % \[4.56, 69.94\]", first
    )
    assert second.startswith(f"{broken} unreadable")
    (listed,) = call("runs", run_folder, "--json").json["runs"]
    (task,) = listed["tasks"]
    assert (task["metric"], task["value"]) == ("Accuracy", 0.25)


def test_the_next_steps_name_this_run(call: Call, project: Path) -> None:
    """And a sample that is worth a look."""
    score = f"score {project}/task.yaml --dataset rows.jsonl"
    words = f"{score} --completion-column completions.m".split()
    rows = [{"answer": "A", "completions": {"m": text}} for text in ("A", "so", "B")]
    write_rows(Path("rows.jsonl"), rows)
    done = call(*words, "--out", "runs/a").err
    assert "  answerkey report runs/a " in done
    assert "  answerkey audit runs/a " in done
    assert "  answerkey compare runs/a OTHER_RUN " in done
    assert re.search(r"answerkey explain runs/a 000002 +# a sample that is INVALID\n", done)


def test_a_comparison_that_cannot_be_made_is_not_proposed(call: Call, project: Path) -> None:
    """Beside a run with other truths there is nothing to compare with."""
    words = ("score", project / "task.yaml", "--dataset", "rows.jsonl")
    for name, answers in {"a": "ABC", "b": "BBC"}.items():
        write_rows(Path("rows.jsonl"), [{"answer": truth, "completion": "A"} for truth in answers])
        done = call(*words, "--out", f"runs/{name}")
    assert "E508" in call("compare", "runs/a", "runs/b").err
    assert "  answerkey compare runs/b OTHER_RUN " in done.err


def test_a_run_of_two_tasks(call: Call, project: Path) -> None:
    """The list has the number of the first, by its name.

    A sample is explained in both; export needs one.
    """
    task = (project / "task.yaml").read_text(encoding="utf-8")
    (project / "other.yaml").write_text(task.replace("key: small", "key: other"), encoding="utf-8")
    (project / "run.yaml").write_text(
        "datasets: [{key: rows, display_name: Rows, source: {type: local, file_path: "
        "rows.jsonl}}]\n"
        "tasks: [{$ref: task.yaml}, {$ref: other.yaml}]\n"
        "evaluation:\n"
        "  key: both\n"
        "  display_name: Both\n"
        "  task_specifications: [{task_key: small}, {task_key: other}]\n",
        encoding="utf-8",
    )
    assert call("run", project, "--out", "runs/both").code == 0
    assert "  8  25.00 % [4.56, 69.94] and 1 more task\n" in call("runs").out
    assert call("explain", "both", "1").out.count("Sample 000001 in task ") == 2
    assert call("explain", "both", "1", "--task", "other").out.count("Sample 000001 in task ") == 1
    refused = call("explain", "both", "1", "--task", "othr")
    assert "error[E504]: the run has no task `othr`" in refused.err
    assert "error[E504]: the run has 2 tasks" in call("export", "both").err
    assert len(call("export", "both", "--task", "other").out.splitlines()) == 4


def test_parquet_keeps_types(call: Call, run_folder: Path) -> None:
    """Numbers stay numbers, lists stay lists, a null of CSV is an empty cell.

    `--json` counts the rows.
    """
    empty = list(csv.DictReader(call("export", run_folder, "--to", "csv").out.splitlines()))[2]
    assert (empty["completion"], empty["completion_status"]) == ("", "NO_TEXT")
    words = ("export", run_folder, "--to", "parquet", "-o", "rows.parquet")
    assert call(*words).err == "4 rows written to rows.parquet\n"
    table = pl.read_parquet("rows.parquet")
    assert table["string_equals_mcqa.is_correct"].to_list() == [1.0, 0.0, 0.0, 0.0]
    assert table.schema["string_equals_mcqa.choices"] == pl.List(pl.String)
    assert call(*words, "--json").json == {
        "export": {"file": "rows.parquet", "form": "parquet", "rows": 4}
    }


def test_a_changed_dataset_cannot_be_exported(call: Call, project: Path, run_folder: Path) -> None:
    """E505: rows that were not scored are never put beside scores."""
    write_rows(project / "rows.jsonl", [{"answer": "A", "completion": "A"}] * 4)
    assert "error[E505]" in call("export", run_folder).err


#: The short series reads the one that is written in the end as well.
FORMS = ["csv", "jsonl", "parquet", "arrow"]


@pytest.mark.parametrize("form", FORMS if os.environ.get("ANSWERKEY_LONG") else FORMS[:1])
def test_a_table_may_have_thousands_of_columns(call: Call, project: Path, form: str) -> None:
    """2,500 columns are read from any format, and written as CSV with all their cells."""
    names = [f"c{number}" for number in range(2500)]
    plain = {"question": "q", "answer": "A", "completion": "A"}
    table = pl.DataFrame([plain | {name: f"={row}{name}" for name in names} for row in range(2)])
    getattr(table, f"write_{({'jsonl': 'ndjson', 'arrow': 'ipc'}).get(form, form)}")(f"wide.{form}")
    words = (project / "task.yaml", "--dataset", f"wide.{form}", "--out", "wide")
    assert call("score", *words).code == 0
    done = call("export", "wide", "--to", "csv", "-o", "out.csv")
    assert done.code == 0, done.err
    rows = pl.read_csv("out.csv", infer_schema=False).select(names)
    assert rows.rows() == [tuple(f"'={row}{name}" for name in names) for row in range(2)]


def read_overview(path: str) -> dict[str, Any]:
    """Return the first block of a report."""
    text = Path(path).read_text(encoding="utf-8")
    match = re.search(r'id="ak-overview">(.*?)</script>', text, re.DOTALL)
    assert match is not None
    overview: dict[str, Any] = json.loads(match[1])
    return overview


def test_a_report_is_named_after_its_run(call: Call, run_folder: Path) -> None:
    """It lies in the current folder.

    Stderr says how large it is, `--json` what is in it; `-q` nothing.
    """
    done = call("report", run_folder)
    assert (done.code, done.out) == (0, "")
    assert re.fullmatch(r"done\.html: [\d.]+ kB, 4 rows embedded\n", done.err)
    assert read_overview("done.html")["runs"][0]["label"] == "done"
    report = call("report", run_folder, "--max-samples", "2", "--json").json["report"]
    size = Path("done.html").stat().st_size
    assert report == {"file": "done.html", "bytes": size, "runs": 1, "rows": 4, "embedded": 2}
    Path("x.html").write_text("old", encoding="utf-8")
    quiet = call("report", run_folder, "-o", "x.html", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert read_overview("x.html")["runs"]
    assert not list(Path().glob(".x.html*"))


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_a_viewer_prints_its_address_and_ctrl_c_ends_it(run_folder: Path) -> None:
    """Stdout has the address and nothing else; the page is there; ending it is no failure."""
    with start("view", run_folder) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(url, timeout=300) as answer:  # noqa: S310 - the address that was printed
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (0, "", "Ctrl-C ends it\nended\n")
    assert url.startswith("http://127.0.0.1:")
