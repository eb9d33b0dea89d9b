from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from answerkey.errors import RunError
from answerkey.reports.pages import document
from answerkey.reports.pages.document import ReportOptions, write_report
from answerkey.reports.pages.rows import open_rows
from answerkey.runs import load_run

from .conftest import SCORER, MakeRun, list_rows, lose_dataset

BLOCK = re.compile(
    r'<script type="application/json" id="([^"]+)"( data-packed="gzip")?>(.*?)</script>', re.DOTALL
)


def read_blocks(path: Path) -> dict[str, Any]:
    """Return the blocks of a report by their ids, unpacked."""
    found = {}
    for name, packed, text in BLOCK.findall(path.read_text(encoding="utf-8")):
        found[name] = json.loads(gzip.decompress(base64.b64decode(text)) if packed else text)
    return found


def test_a_report_holds_overview_rows_and_samples(make_run: MakeRun, tmp_path: Path) -> None:
    """Blocks are named by run and task; rows are columns; a sample stands where its row does."""
    run = make_run()
    report = write_report([run], tmp_path / "report.html")
    blocks = read_blocks(report.path)
    assert list(blocks) == ["ak-overview", "ak-samples-0-0-0", "ak-rows-0-0"]
    overview = blocks["ak-overview"]
    assert list(overview) == ["mode", "title", "made", "version", "runs", "comparison"]
    assert (overview["mode"], overview["title"], overview["comparison"]) == ("report", "Quiz", None)
    assert [one["id"] for one in overview["runs"]] == ["r0"]
    assert overview["runs"][0]["tasks"][0]["rows"]["embedded"] == 5
    rows = blocks["ak-rows-0-0"]
    assert rows["id"] == ["000001", "000002", "000003", "000004", "000005"]
    assert rows["validity"] == {"codes": [0, 0, 1, 1, 1], "names": ["VALID", "INVALID"]}
    assert [one["id"] for one in blocks["ak-samples-0-0-0"]] == rows["id"]
    assert (report.size, report.rows, report.embedded) == (report.path.stat().st_size, 5, 5)


def test_a_report_says_what_the_viewer_says(make_run: MakeRun, tmp_path: Path) -> None:
    """The same rows and samples, whoever shows them, and however many processes made them."""
    many = [{**row, "question": f"{row['question']} {n}"} for n in range(60) for row in list_rows()]
    run = make_run(rows=many)
    blocks = read_blocks(write_report([run], tmp_path / "report.html").path)
    book = open_rows(run)
    samples = [one for name, block in blocks.items() if "samples" in name for one in block]
    assert samples == [book.describe(position) for position in range(300)]
    assert len(blocks["ak-samples-0-0-0"]) == 200
    listed = book.list(range(300))
    assert blocks["ak-rows-0-0"]["head"] == [one["head"] for one in listed]
    assert blocks["ak-rows-0-0"]["flipped"] == [one["flipped"] for one in listed]


def test_processes_make_the_same_report(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks are the same, byte by byte, whoever made them."""
    many = [row for _ in range(60) for row in list_rows()]
    run = make_run(rows=many)
    alone = read_blocks(write_report([run], tmp_path / "alone.html").path)
    monkeypatch.setattr(document, "WORKER_ROWS", 0)
    monkeypatch.setattr(document, "TOGETHER", 200)
    spread = read_blocks(write_report([run], tmp_path / "spread.html").path)
    assert {name: one for name, one in spread.items() if name != "ak-overview"} == {
        name: one for name, one in alone.items() if name != "ak-overview"
    }


def test_a_large_run_is_embedded_in_part_and_says_so(make_run: MakeRun, tmp_path: Path) -> None:
    """The sentence is in the overview; positions are those of the run."""
    many = [row for _ in range(20) for row in list_rows()]
    report = write_report([make_run(rows=many)], tmp_path / "report.html", ReportOptions(most=40))
    blocks = read_blocks(report.path)
    about = blocks["ak-overview"]["runs"][0]["tasks"][0]["rows"]
    assert (about["count"], about["embedded"]) == (100, 40)
    assert about["sentence"].startswith("This file holds 40 of 100 samples: ")
    positions = blocks["ak-rows-0-0"]["p"]
    assert positions == sorted(set(positions))
    assert len(positions) == 40
    assert (report.rows, report.embedded) == (100, 40)


def test_a_report_without_samples(make_run: MakeRun, tmp_path: Path) -> None:
    """No text of the dataset is in it."""
    report = write_report([make_run()], tmp_path / "report.html", ReportOptions(most=0))
    blocks = read_blocks(report.path)
    assert blocks["ak-rows-0-0"]["p"] == []
    assert "Two plus two" not in report.path.read_text(encoding="utf-8")


def test_several_runs_are_compared(make_run: MakeRun, tmp_path: Path) -> None:
    """Each has its blocks; the baseline comes last and is held against."""
    base, other = make_run("base"), make_run("other", [{**row, "completion": "A"} for row in list_rows()])
    options = ReportOptions(baseline=base, title="Ours <b>")
    blocks = read_blocks(write_report([other, base], tmp_path / "report.html", options).path)
    overview = blocks["ak-overview"]
    assert [one["label"] for one in overview["runs"]] == ["other", "base"]
    assert overview["title"] == "Ours <b>"
    assert overview["comparison"]["tasks"][0]["pairs"][0]["second"] == "r1"
    assert overview["runs"][0]["tasks"][0]["headline"]["baseline"]["label"] == "base"
    assert overview["runs"][1]["tasks"][0]["headline"]["baseline"] is None
    assert {"ak-rows-0-0", "ak-rows-1-0"} <= set(blocks)


def test_a_run_that_is_named_twice_is_there_once(make_run: MakeRun, tmp_path: Path) -> None:
    """And nothing is compared with itself."""
    run = make_run()
    report = write_report([run, run], tmp_path / "report.html")
    assert report.runs == 1
    assert read_blocks(report.path)["ak-overview"]["comparison"] is None


def test_runs_that_cannot_be_compared_are_shown_all_the_same(make_run: MakeRun, tmp_path: Path) -> None:
    """The page says why there is no comparison."""
    runs = [make_run("a"), make_run("b", list_rows()[:2])]
    blocks = read_blocks(write_report(runs, tmp_path / "report.html").path)
    comparison = blocks["ak-overview"]["comparison"]
    assert comparison["tasks"] == []
    assert "3 samples of `a` are not in `b`" in comparison["refused"]
    assert blocks["ak-rows-1-0"]["p"] == [0, 1]


def test_a_run_without_its_dataset_says_so(make_run: MakeRun, tmp_path: Path) -> None:
    """Numbers and verdicts are there; the sentence stands above the table."""
    run = make_run()
    lose_dataset(run)
    blocks = read_blocks(write_report([run], tmp_path / "report.html").path)
    task = blocks["ak-overview"]["runs"][0]["tasks"][0]
    assert "gone or has changed" in task["rows"]["sentence"]
    assert task["headline"]["value"] == 0.2
    assert blocks["ak-rows-0-0"]["predicted"]["names"] == ["A", "C"]


def test_no_folder_of_this_machine_is_in_a_report(make_run: MakeRun, tmp_path: Path) -> None:
    """Files are named without their folders, in every block."""
    said = [{"sample_id": f"{number:06d}", "completion": "A"} for number in range(1, 6)]
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(one) + "\n" for one in said))
    plain = [{name: row[name] for name in ("question", "options", "answer")} for row in list_rows()]
    recorded = make_run("recorded", plain, "--completions", str(tmp_path / "said.jsonl"))
    blocks = read_blocks(write_report([make_run("a"), recorded], tmp_path / "report.html").path)
    assert blocks["ak-overview"]["comparison"]["tasks"][0]["runs"][1]["model"] == "said.jsonl"
    assert str(tmp_path) not in json.dumps(blocks)
    lose_dataset(recorded)
    blocks = read_blocks(write_report([make_run("b"), recorded], tmp_path / "report.html").path)
    assert str(tmp_path) not in json.dumps(blocks)


def test_runs_of_the_same_name_are_numbered(make_run: MakeRun, tmp_path: Path) -> None:
    """And not told apart by the folders that they lie in."""
    (tmp_path / "x").mkdir()
    runs = [make_run("a"), make_run("b", list_rows()[:2])]
    (tmp_path / "b").rename(tmp_path / "x" / "a")
    moved = [runs[0], load_run(tmp_path / "x" / "a")]
    for common in (False, True):
        options = ReportOptions(common=common)
        blocks = read_blocks(write_report(moved, tmp_path / "report.html", options).path)
        assert [one["label"] for one in blocks["ak-overview"]["runs"]] == ["a", "a (2)"]
        assert str(tmp_path) not in json.dumps(blocks)
        comparison = blocks["ak-overview"]["comparison"]
        assert ("`a (2)`" in str(comparison["refused"])) is not common
        assert [one["label"] for task in comparison["tasks"] for one in task["runs"]] == [
            "a",
            "a (2)",
        ] * common


def test_hostile_names_and_texts_stay_values(make_run: MakeRun, tmp_path: Path) -> None:
    """Markup in questions, options, completions, columns, categories and keys ends no block."""
    nasty = "</script><script>alert(1)</script><!--\u2028&amp;'\""
    rows = [
        {"question": nasty, "options": [nasty, "x", "y"], "answer": "A", "completion": nasty, nasty: nasty,
         "category": nasty}
        for _ in range(3)
    ]  # fmt: skip
    scorer = {**SCORER, "display_name": nasty}
    report = write_report(
        [make_run(rows=rows, scorers=[scorer])], tmp_path / "x.html", ReportOptions(title=nasty)
    )
    page = report.path.read_text(encoding="utf-8")
    assert "alert(1)</script>" not in page
    blocks = read_blocks(report.path)
    assert blocks["ak-overview"]["title"] == nasty
    sample = blocks["ak-samples-0-0-0"][0]
    assert (sample["question"], sample["completion"]["text"]) == (nasty, nasty)
    assert {"name": nasty, "text": nasty} in sample["fields"]
    assert blocks["ak-rows-0-0"]["category"]["names"] == [nasty]
    assert page.count("<script>") == 1


def test_an_empty_run_has_a_report(make_run: MakeRun, tmp_path: Path) -> None:
    """A run of which no task is finished shows that."""
    run = replace(make_run(), tasks={})
    blocks = read_blocks(write_report([run], tmp_path / "report.html").path)
    assert list(blocks) == ["ak-overview"]
    assert blocks["ak-overview"]["runs"][0]["tasks"] == []


def test_a_file_that_cannot_be_written_is_an_error(make_run: MakeRun, tmp_path: Path) -> None:
    """E502, and nothing is left behind."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError) as caught:
        write_report([make_run()], tmp_path / "folder")
    assert caught.value.code == "E502"
    with pytest.raises(RunError):
        write_report([make_run("other")], tmp_path / "nowhere" / "x.html")
    assert not (tmp_path / "nowhere").exists()


def test_progress_is_told(make_run: MakeRun, tmp_path: Path) -> None:
    """The last word on writing is that all rows are written."""
    heard: list[tuple[str, int, int]] = []
    write_report([make_run()], tmp_path / "x.html", progress=lambda *words: heard.append(words))
    assert heard[-1] == ("writing", 5, 5)


def test_orders_of_options_are_rows(tmp_path: Path, make_run: MakeRun) -> None:
    """Each order is a row with its own id; choices are shown as they were asked."""
    plain = [{name: value for name, value in row.items() if name != "completion"} for row in list_rows()[:1]]
    said = [
        {"sample_id": "000001", "option_order": order, "completion": "A"}
        for order in ([0, 1, 2], [1, 2, 0], [2, 0, 1])
    ]
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(one) + "\n" for one in said))
    order = {"options": "{{ sample.options }}", "orders": "rotations"}
    words = ("--completions", str(tmp_path / "said.jsonl"))
    run = make_run("orders", plain, *words, choice_order=order)
    blocks = read_blocks(write_report([run], tmp_path / "report.html").path)
    samples = blocks["ak-samples-0-0-0"]
    assert [one["id"] for one in samples] == ["000001", "000001~1", "000001~2"]
    shown = [[choice["text"] for choice in one["choices"]] for one in samples]
    assert all(sorted(texts) == ["five", "four", "six"] for texts in shown)
    assert len({tuple(texts) for texts in shown}) == 3
    for one in samples:
        (truth,) = [choice["text"] for choice in one["choices"] if choice["is_truth"]]
        assert truth == "four"
    assert open_rows(run).locate_all(["000001"]) == {"000001": 0}
