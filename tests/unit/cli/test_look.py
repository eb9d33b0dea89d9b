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

from answerkey.cli import main

from .conftest import Call, Terminal, start, write_rows


@pytest.mark.parametrize("name", ["done", "small/done", "small/done/run.json", "latest"])
def test_a_run_is_found_by_folder_or_name(call: Call, run_folder: Path, name: str) -> None:
    """A path, the `run.json` in it, a name below `runs`, or the newest there.

    The folder alone is enough.
    """
    Path("runs").symlink_to(run_folder.parent)
    assert "  Accuracy  25.00 %  [4.56, 69.94]  4\n" in call("show", name).out
    assert call("show", name, "--json").json["run"]["status"] == "complete"


def test_the_summary_as_markdown(call: Call, run_folder: Path) -> None:
    """One page on stdout that begins with the name of the run; nothing else is said."""
    shown = call("show", run_folder, "--format", "markdown")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("## Small: complete\n")
    assert "| Accuracy | 25.00 % | \\[4.56, 69.94\\] | 4 |" in shown.out


SEEN = [
    *((text, "VALID", None) for text in ("B", "B.", "B) Paris", " B")),
    ("Answer: B", "INVALID", "PART_OF_A_WORD"),
    ("Based on the text, B", "INVALID", "PART_OF_A_WORD"),
    ("A or B", "INVALID", "SEVERAL_CHOICES"),
    ("A good choice is C", "INVALID", "RUNS_INTO_TEXT"),
    ("", "INVALID", "EMPTY"),
    (None, "INVALID", "NO_TEXT"),
    ("E", "INVALID", "NOT_A_CHOICE"),
    ("b", "INVALID", "NOT_A_CHOICE"),
]


def test_explain_shows_verdict_and_reason_of_every_kind(call: Call, project: Path) -> None:
    """What the rule decides, and why, is visible for each completion.

    A row number stands for its id.
    """
    rows = write_rows(
        project / "rows.jsonl", [{"answer": "B", "completion": text} for text, _, _ in SEEN]
    )
    assert call("score", project / "task.yaml", "--dataset", rows, "--out", "here").code == 0
    for number, (text, validity, reason) in enumerate(SEEN, start=1):
        shown = call("explain", "here", number).out
        assert shown.startswith(f"Sample {number:06} in task small\n  --> ")
        assert f"rows.jsonl:{number}\n" in shown
        assert text is not None or "Completion  NO_TEXT\n  no text\n" in shown
        assert f"  completion_validity  {validity}\n" in shown
        assert f"  validity_reason      {reason or 'null'}\n" in shown
        assert re.search(f"  why +{validity}: ", shown)


def test_explain_as_json(call: Call, project: Path, run_folder: Path) -> None:
    """The same as plain values.

    What the run folder holds is there without the dataset, with a warning.
    """
    (found,) = call("explain", run_folder, "4", "--json").json["samples"]
    assert (found["sample_id"], found["completion"]) == ("000004", "\x1b[31mB")
    score = found["scores"]["string_equals_mcqa"]
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
        rf"{run_folder} 20[-0-9]+ [:0-9]+ complete dataset.* 4 25.00 % \[4.56, 69.94\]",
        first,
    )
    assert second.startswith(f"{broken} unreadable")
    (listed,) = call("runs", run_folder, "--json").json["runs"]
    (task,) = listed["tasks"]
    assert (task["metric"], task["value"]) == ("Accuracy", 0.25)


def test_the_next_steps_name_this_run(call: Call, project: Path) -> None:
    """And a sample that is worth a look."""
    score = (
        "score",
        project / "task.yaml",
        "--dataset",
        "rows.jsonl",
        "--completion-column",
        "completions.m",
    )
    write_rows(
        Path("rows.jsonl"),
        [{"answer": "A", "completions": {"m": name}} for name in ("A", "so", "B")],
    )
    done = call(*score, "--out", "runs/a").err
    assert "  answerkey report runs/a " in done
    assert "  answerkey audit runs/a " in done
    assert "  answerkey compare runs/a OTHER_RUN " in done
    assert re.search(r"answerkey explain runs/a 000002 +# a sample that is INVALID\n", done)


def test_a_comparison_that_cannot_be_made_is_not_proposed(call: Call, project: Path) -> None:
    """Beside a run with other truths there is nothing to compare with."""
    words = ("score", project / "task.yaml", "--dataset", "rows.jsonl")
    for name, answers in {"a": "ABC", "b": "BBC"}.items():
        write_rows(
            Path("rows.jsonl"), [{"answer": answer, "completion": "A"} for answer in answers]
        )
        done = call(*words, "--out", f"runs/{name}")
    assert "E508" in call("compare", "runs/a", "runs/b").err
    assert "  answerkey compare runs/b OTHER_RUN " in done.err


def test_two_columns_of_one_file_are_one_dataset(call: Call) -> None:
    """Runs of its questions are compared without a word about other datasets."""
    rows = [
        {
            "question": f"q{n}",
            "options": ["x", "y"],
            "answer": "AB"[n % 2],
            "gpt": "A",
            "claude": "B",
        }
        for n in range(4)
    ]
    write_rows(Path("rows.jsonl"), rows)
    for name in ("gpt", "claude"):
        assert call("score", "rows.jsonl", "--completion-column", name, "--out", name).code == 0
    compared = call("compare", "gpt", "claude")
    assert (compared.code, compared.err) == (0, "")


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
    listed = "  8  25.00 % [4.56, 69.94] and 1 more task\n"
    assert listed in call("runs").out
    assert call("explain", "both", "1").out.count("Sample 000001 in task ") == 2
    assert call("explain", "both", "1", "--task", "other").out.count("Sample 000001 in task ") == 1
    assert (
        "error[E504]: the run has no task `othr`"
        in call("explain", "both", "1", "--task", "othr").err
    )
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


def test_numbers_that_json_lacks_become_null(call: Call, project: Path) -> None:
    """A NaN in a Parquet dataset is null in every form."""
    table = pl.DataFrame({"answer": ["A"], "completion": ["A"], "weight": [float("nan")]})
    table.write_parquet("rows.parquet")
    assert (
        call("score", project / "task.yaml", "--dataset", "rows.parquet", "--out", "here").code == 0
    )
    assert json.loads(call("export", "here").out)["sample"]["weight"] is None
    assert "NaN" not in call("export", "here", "--to", "csv").out


def test_csv_holds_no_formula_unless_raw(call: Call, project: Path) -> None:
    """A text that begins like a formula has an apostrophe in front, in a file too.

    `--raw` has all as is.
    """
    formula = {"question": "=1+1", "answer": "A", "completion": '=HYPERLINK("http://x")', "a;=b": 1}
    rows = write_rows(
        project / "f.jsonl", [formula, {"question": "-5", "answer": "B", "completion": "- B"}]
    )
    assert call("score", project / "task.yaml", "--dataset", rows, "--out", "run").code == 0
    printed = call("export", "run", "--to", "csv").out
    guarded = list(csv.DictReader(printed.splitlines()))
    assert [row["completion"] for row in guarded] == ['\'=HYPERLINK("http://x")', "'- B"]
    assert [row["question"] for row in guarded] == ["'=1+1", "-5"]
    assert call("export", "run", "--to", "csv", "-o", "rows.csv").code == 0
    assert Path("rows.csv").read_text(encoding="utf-8") == printed
    raw = list(csv.DictReader(call("export", "run", "--to", "csv", "--raw").out.splitlines()))
    assert [row["completion"] for row in raw] == ['=HYPERLINK("http://x")', "- B"]
    assert ("a;'=b" in guarded[0], "a;=b" in raw[0]) == (True, True)


@pytest.mark.parametrize(("form", "shown"), [("csv", "\\x1b[31mB"), ("jsonl", "\\u001b[31mB")])
def test_a_terminal_is_not_commanded_by_rows(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, form: str, shown: str
) -> None:
    """On a terminal hidden characters are written out; a pipe gets them as they are."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["export", str(run_folder), "--to", form]) == 0
    assert shown in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


#: The short series reads the one that is written in the end as well.
FORMS = ["csv", "jsonl", "parquet", "arrow"]


@pytest.mark.parametrize("form", FORMS if os.environ.get("ANSWERKEY_LONG") else FORMS[:1])
def test_a_table_may_have_thousands_of_columns(call: Call, project: Path, form: str) -> None:
    """2,500 columns are read from any format, and written as CSV with all their cells."""
    names = [f"c{number}" for number in range(2500)]
    plain = {"question": "q", "answer": "A", "completion": "A"}
    table = pl.DataFrame([plain | {name: f"={row}{name}" for name in names} for row in range(2)])
    getattr(table, f"write_{({'jsonl': 'ndjson', 'arrow': 'ipc'}).get(form, form)}")(f"wide.{form}")
    assert (
        call("score", project / "task.yaml", "--dataset", f"wide.{form}", "--out", "wide").code == 0
    )
    done = call("export", "wide", "--to", "csv", "-o", "out.csv")
    assert done.code == 0, done.err
    told = pl.read_csv("out.csv", infer_schema=False).select(names)
    assert told.rows() == [tuple(f"'={row}{name}" for name in names) for row in range(2)]


def read_overview(path: str) -> dict[str, Any]:
    """Return the first block of a report."""
    text = Path(path).read_text(encoding="utf-8")
    found = re.search(r'id="ak-overview">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    overview: dict[str, Any] = json.loads(found[1])
    return overview


def test_a_report_is_named_after_its_run(call: Call, run_folder: Path) -> None:
    """It lies in the current folder.

    Stderr says how large it is, `--json` what is in it; `-q` nothing.
    """
    done = call("report", run_folder)
    assert (done.code, done.out) == (0, "")
    assert re.fullmatch(r"done\.html: [\d.]+ kB, 4 rows embedded\n", done.err)
    assert read_overview("done.html")["runs"][0]["label"] == "done"
    told = call("report", run_folder, "--max-samples", "2", "--json").json["report"]
    size = Path("done.html").stat().st_size
    assert told == {"file": "done.html", "bytes": size, "runs": 1, "rows": 4, "embedded": 2}
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
