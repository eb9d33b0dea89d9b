"""Laws of the report file: its page, its blocks, the rows that it embeds."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from tests.projects import write_rows

from answerkey.errors import RunError
from answerkey.exporters import to_json
from answerkey.reports import html
from answerkey.reports.comparison import build_comparison, list_flips
from answerkey.reports.html import build_page, describe_content, report, select_rows
from answerkey.reports.overview import dump
from answerkey.runs import Run, load_run

from .conftest import SCORER, MakeRun, list_rows, lose_dataset, open_table

BLOCK = re.compile(
    r'<script type="application/json" id="([^"]+)"( data-packed="gzip")?>(.*?)</script>', re.DOTALL
)


def report_on(runs: Sequence[Run], path: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - of report
    """Write a report; return its blocks by their ids, unpacked."""
    report(runs, path, **options)
    results = {}
    for name, packed, text in BLOCK.findall(path.read_text(encoding="utf-8")):
        results[name] = json.loads(gzip.decompress(base64.b64decode(text)) if packed else text)
    return results


# ── what is in a file


def test_a_report_holds_overview_rows_and_samples(small: Run, tmp_path: Path) -> None:
    """Blocks are named by run and task; rows are columns; a sample stands where its row does."""
    blocks = report_on([small], tmp_path / "x.html")
    assert list(blocks) == ["ak-overview", "ak-samples-0-0-0", "ak-rows-0-0"]
    overview = blocks["ak-overview"]
    assert list(overview) == ["mode", "title", "made", "version", "runs", "comparison"]
    assert (overview["mode"], overview["title"], overview["comparison"]) == ("report", "Quiz", None)
    assert [run["id"] for run in overview["runs"]] == ["r0"]
    assert overview["runs"][0]["tasks"][0]["rows"]["embedded"] == 5
    rows = blocks["ak-rows-0-0"]
    assert rows["id"] == ["000001", "000002", "000003", "000004", "000005"]
    assert rows["validity"] == ["VALID", "VALID", "INVALID", "INVALID", "INVALID"]
    assert rows["predicted"] == ["A", "C", None, None, None]
    assert [block["id"] for block in blocks["ak-samples-0-0-0"]] == rows["id"]


def test_a_report_says_what_the_viewer_says(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both show the same rows and samples, however many are read together."""
    run = make_run(rows=list_rows(60))
    blocks = report_on([run], tmp_path / "alone.html")
    table = open_table(run)
    results = [sample for name, block in blocks.items() if "samples" in name for sample in block]
    for place in (*range(7), *range(195, 207), *range(295, 300)):  # ends of the table and a block
        assert results[place] == table.describe(place)
    assert len(blocks["ak-samples-0-0-0"]) == 200
    rows = table.list(range(300))
    assert blocks["ak-rows-0-0"] == {name: [row[name] for row in rows] for name in rows[0]}
    monkeypatch.setattr(html, "CHUNK_SAMPLES", 200)
    chunks = report_on([run], tmp_path / "chunks.html")
    assert chunks | {"ak-overview": None} == blocks | {"ak-overview": None}


def test_a_large_run_is_embedded_in_part_and_says_so(make_run: MakeRun, tmp_path: Path) -> None:
    """The sentence is in the overview; positions are those of the run."""
    run = make_run(rows=list_rows(20))
    path = tmp_path / "x.html"
    heard: list[tuple[str, int, int]] = []
    written = report([run], path, max_samples=40, progress=lambda *words: heard.append(words))
    size = path.stat().st_size
    assert written == {"file": str(path), "bytes": size, "runs": 1, "rows": 100, "embedded": 40}
    assert heard[-1] == ("writing", 40, 40)
    blocks = report_on([run], path, max_samples=40)
    about = blocks["ak-overview"]["runs"][0]["tasks"][0]["rows"]
    assert (about["count"], about["embedded"]) == (100, 40)
    assert about["sentence"].startswith("This file holds 40 of 100 samples: ")
    positions = blocks["ak-rows-0-0"]["p"]
    assert positions == sorted(set(positions))
    assert len(positions) == 40


def test_no_folder_of_this_machine_is_in_a_report(make_run: MakeRun, tmp_path: Path) -> None:
    """Files are named without their folders, in every block.

    Without its dataset a run has its verdicts.
    """
    replies = [{"sample_id": f"{number:06d}", "completion": "A"} for number in range(1, 6)]
    file = write_rows(tmp_path / "said.jsonl", replies)
    plain = [{name: row[name] for name in ("question", "options", "answer")} for row in list_rows()]
    runs = [make_run("a"), make_run("recorded", plain, "--completions", file)]
    blocks = report_on(runs, tmp_path / "x.html")
    assert blocks["ak-overview"]["comparison"]["tasks"][0]["runs"][1]["model"] == "said.jsonl"
    assert str(tmp_path) not in json.dumps(blocks)
    lose_dataset(runs[1])
    blocks = report_on(runs, tmp_path / "x.html")
    task = blocks["ak-overview"]["runs"][1]["tasks"][0]
    assert "gone or has changed" in task["rows"]["sentence"]
    assert task["headline"]["value"] == 0.4
    assert set(blocks["ak-rows-1-0"]["predicted"]) == {"A"}
    assert str(tmp_path) not in json.dumps(blocks)


def test_runs_of_the_same_name_are_numbered(make_run: MakeRun, tmp_path: Path) -> None:
    """And not told apart by the folders that they lie in."""
    (tmp_path / "x").mkdir()
    runs = [make_run("a"), make_run("b", list_rows()[:2])]
    (tmp_path / "b").rename(tmp_path / "x" / "a")
    blocks = report_on([runs[0], load_run(tmp_path / "x" / "a")], tmp_path / "x.html")
    assert [block["label"] for block in blocks["ak-overview"]["runs"]] == ["a", "a (2)"]
    assert str(tmp_path) not in json.dumps(blocks)
    assert "`a (2)`" in blocks["ak-overview"]["comparison"]["refused"]


def test_a_file_that_cannot_be_written_is_an_error(small: Run, tmp_path: Path) -> None:
    """E502, and nothing is left behind."""
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "nowhere" / "x.html"):
        with pytest.raises(RunError, match=r"^error\[E502\]"):
            report([small], path)
    assert not (tmp_path / "nowhere").exists()


def test_reports_to_one_file_do_not_share_a_draft(small: Run, tmp_path: Path) -> None:
    """Both are written, and the one that ends last is there, whole."""
    path = tmp_path / "x.html"
    titles = iter(["inner"])

    def write_inner(*_: object) -> None:
        for title in titles:
            report(small, path, title=title)

    report(small, path, title="outer", progress=write_inner)
    assert [file.name for file in tmp_path.iterdir()] == ["x.html"]
    page = path.read_text(encoding="utf-8")
    assert "<title>outer" in page
    assert page.rstrip().endswith("</html>")


# ── nothing from data is markup


def test_hostile_names_and_texts_stay_values(make_run: MakeRun, tmp_path: Path) -> None:
    """Markup in questions, options, completions, columns, categories and keys ends no block."""
    nasty = "</script><script>alert(1)</script><!--\u2028&amp;'\""
    row = {"question": nasty, "options": [nasty, "x", "y"], "answer": "A", "completion": nasty}
    row |= {nasty: nasty, "category": nasty}
    run = make_run(rows=[row] * 3, scorers=[{**SCORER, "display_name": nasty}])
    blocks = report_on([run], tmp_path / "x.html", title=nasty)
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "alert(1)</script>" not in page
    assert page.count("<script>") == 1
    assert blocks["ak-overview"]["title"] == nasty
    sample = blocks["ak-samples-0-0-0"][0]
    assert (sample["question"], sample["completion"]["text"]) == (nasty, nasty)
    assert {"name": nasty, "text": nasty} in sample["fields"]
    assert set(blocks["ak-rows-0-0"]["category"]) == {nasty}


MARKUP = ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "&lt;/script&gt;"]
ODD = ["\u2028\u2029", "\x00\x1b[31m", "\ud800 half", "\ufeff\u202e", "'\"`${}\\"]


@pytest.mark.parametrize("text", [*MARKUP, *ODD])
def test_no_text_can_end_its_block(text: str) -> None:
    """What comes back is the text; in the page nothing of it is markup, and all of it is UTF-8."""
    written = describe_content(to_json({text: [text]}))[1:]
    assert re.search("[<>&\u2028\u2029\ud800-\udfff]", written) is None
    assert json.loads(written.encode().decode()) == {text: [text]}


def test_small_blocks_are_plain_and_large_ones_packed() -> None:
    """A packed block says so, unpacks to the same JSON, and is the same bytes every time.

    JSON has no NaN: it becomes null.
    """
    odd = {"a": float("nan"), "b": [float("inf")]}
    assert describe_content(to_json(odd)) == '>{"a": null, "b": [null]}'
    texts = ["<é😀"] * 2_000
    large = describe_content(to_json(texts))
    packed = re.fullmatch(r' data-packed="gzip">([A-Za-z0-9+/=]+)', large)
    assert packed is not None
    assert json.loads(gzip.decompress(base64.b64decode(packed[1]))) == texts
    assert describe_content(to_json(texts)) == large
    assert describe_content("é" * 4_095) == f">{'é' * 4_095}"
    assert describe_content("é" * 4_096).startswith(' data-packed="gzip">')


def build(title: str, *, is_viewer: bool = False) -> str:
    """Return the page without any block."""
    begin, end, _ = build_page(title, is_viewer=is_viewer)
    return begin + end


def hash_text(text: str) -> str:
    """Return the hash as a policy writes it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize("is_viewer", [False, True])
def test_the_policy_allows_this_script_and_this_style_alone(*, is_viewer: bool) -> None:
    """There is one of each in the page, and the policy has their hashes; nothing may be fetched.

    A report has it in the page, before anything that it should hold for; a server says it itself.
    """
    page, policy = build("x", is_viewer=is_viewer), build_page("x", is_viewer=is_viewer)[2]
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    hashes = f"script-src {hash_text(script)}; style-src {hash_text(style)}"
    targets = "base-uri 'none'; form-action 'none'"
    assert policy == f"default-src 'none'; {hashes}; img-src data:; {targets}"
    head = page.partition("<style>")[0]
    policies = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', head)
    assert list(map(unescape, policies)) == ([] if is_viewer else [policy])
    assert page.count("Content-Security-Policy") == len(policies)


def test_a_report_cannot_ask_a_server_and_no_script_parses_markup() -> None:
    """The scripts that ask are in the viewer alone; no page has an address but that of SVG's names.

    What would make a text run, or a page of it, is not used at all. Who has switched scripts off is
    told.
    """
    report, viewer = build("x"), build("x", is_viewer=True)
    words = r"\bfetch\s*\(|XMLHttpRequest|WebSocket|sendBeacon|EventSource|import\s*\("
    assert re.search(words, report) is None
    assert "X-Answerkey-Token" in viewer
    assert set(re.findall(r"https?://[^\s\"'`)]+", viewer)) <= {"http://www.w3.org/2000/svg"}
    words = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\("
    assert re.findall(rf"{words}|new Function|DOMParser|cssText", viewer) == []
    assert re.search(r"<noscript>\s*<main>\s*<h1>", report)
    assert '<html lang="en"' in report


def test_the_title_is_text() -> None:
    """It stays within its element, fills in no mark of the page, and turns no text of the
    window.
    """
    title = "</title><script>alert(1)</script><!-- script -->"
    page = build(title)
    assert f"<title>{escape(title)}</title>" in page
    assert page.count("<script>") == 1
    assert "<title>\\u202eevil\\x1b[1m</title>" in build("\u202eevil\x1b[1m")


# ── which rows are embedded


@pytest.mark.parametrize(
    ("counts", "most", "compared", "sentence"),
    [
        ((5, 5, 190), 40, [], "This file holds 40 of 200 samples: some that are INVALID, wrong"),
        ((150, 40, 10), 40, [], "This file holds 40 of 200 samples"),
        ((0, 0, 200), 64, [7, 77, 177], "This file holds 64 of 200 samples"),
        ((2, 1, 7), 0, [], "This file holds none of 10 samples."),
        ((2, 1, 7), 10, [], "None"),
    ],
    ids=["what decides comes first", "no kind takes all", "runs differ", "none", "all"],
)
def test_what_decides_is_embedded(
    make_run: MakeRun, counts: tuple[int, int, int], most: int, compared: list[int], sentence: str
) -> None:
    """As many as asked for, in order; `counts` are wrong, invalid and right ones.

    The same run gives the same selection, and the sentence says so.
    """
    wrong, invalid, right = counts
    texts = ["B"] * wrong + ["none"] * invalid + ["A"] * right
    run = make_run(rows=[{"question": "q", "answer": "A", "completion": text} for text in texts])
    selection = select_rows(open_table(run), most, compared)
    positions = list(selection.positions)
    assert positions == sorted(set(positions))
    assert len(positions) == most
    assert set(compared) <= set(positions)
    if wrong + invalid <= most // 4:
        assert set(range(wrong + invalid)) <= set(positions)
    assert str(selection.sentence).startswith(sentence)
    assert list(select_rows(open_table(run), most, compared).positions) == positions


# ── several runs compared


def test_a_pair_has_all_that_a_page_shows(make_run: MakeRun) -> None:
    """Difference with interval and test, categories, flips with their places.

    A report must embed these rows so that flips can be looked at.
    """
    runs = {"r0": make_run("a"), "r1": make_run("b", list_rows(q0="B", q1="B", q4="B"))}
    comparison = build_comparison(runs)
    assert list_flips(comparison, "r0", 0) == [0, 1, 4]
    assert (list_flips(comparison, "r0", 1), list_flips(None, "r0", 0)) == ([], [])
    result = dump(comparison)
    assert result["notices"] == [
        "the datasets of `a` and `b` differ; their samples are matched by id and truth"
    ]
    assert result["refused"] is None
    (task,) = result["tasks"]
    assert [task[name] for name in ("key", "samples", "is_share")] == ["quiz", 5, True]
    sides = [(run["id"], run["label"], run["mean"], run["n"]) for run in task["runs"]]
    assert sides == [("r0", "a", 0.2, 5), ("r1", "b", 0.4, 5)]
    (pair,) = task["pairs"]
    numbers = {"difference": -0.2, "first_only": 1, "second_only": 2, "flips_total": 3}
    verdict = {"test": "McNemar's exact test", "p_adjusted": 1.0, "is_significant": False}
    values = {"first": "r0", "second": "r1", **numbers, **verdict}
    assert pair.items() >= values.items()
    assert set(pair) - set(values) == {*["interval", "p", "left_out", "categories", "flips"]}
    assert pair["flips"] == [
        {"id": "000001", "p": {"r0": 0, "r1": 0}, "side": "first"},
        {"id": "000002", "p": {"r0": 1, "r1": 1}, "side": "second"},
        {"id": "000005", "p": {"r0": 4, "r1": 4}, "side": "second"},
    ]
    assert [row["label"] for row in pair["categories"]] == ["(none)", "mathematics", "nature"]
