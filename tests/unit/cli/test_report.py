from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def read_overview(path: Path) -> dict[str, Any]:
    """Return the first block of a report."""
    found = re.search(r'id="ak-overview">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    overview: dict[str, Any] = json.loads(found[1])
    return overview


def test_a_report_is_named_after_its_run(call: Call, run_folder: Path) -> None:
    """It lies in the current folder; the closing line says where and how large; stdout stays empty."""
    done = call("report", run_folder)
    assert (done.code, done.out) == (0, "")
    assert re.fullmatch(r"done\.html: \d+ kB, 4 rows embedded\n", done.err)
    assert read_overview(Path("done.html"))["runs"][0]["label"] == "done"


def test_the_file_can_be_chosen_and_is_replaced(call: Call, run_folder: Path) -> None:
    """Making a report again gives the new one."""
    Path("x.html").write_text("old", encoding="utf-8")
    assert call("report", run_folder, "-o", "x.html", "--title", "Mine").code == 0
    assert read_overview(Path("x.html"))["title"] == "Mine"
    assert not list(Path().glob(".x.html*"))


def test_json_says_what_was_written(call: Call, run_folder: Path) -> None:
    """File, size, and how many rows are in it."""
    told = call("report", run_folder, "--max-samples", "2", "--json").json["report"]
    size = Path("done.html").stat().st_size
    assert told == {"file": "done.html", "bytes": size, "runs": 1, "rows": 4, "embedded": 2}


def test_quiet_says_nothing(call: Call, run_folder: Path) -> None:
    """The file is written all the same."""
    done = call("report", run_folder, "-q")
    assert (done.out, done.err) == ("", "")
    assert Path("done.html").is_file()


def test_a_baseline_is_in_the_report(call: Call, project: Path, run_folder: Path) -> None:
    """Several runs make `comparison.html`; each is held against the baseline."""
    words = ("score", project / "task.yaml", "--dataset", project / "rows.jsonl", "--out", project / "new")
    assert call(*words).code == 0
    assert call("report", project / "new", "--baseline", run_folder).code == 0
    overview = read_overview(Path("comparison.html"))
    assert [run["label"] for run in overview["runs"]] == ["new", "done"]
    assert [pair["second"] for pair in overview["comparison"]["tasks"][0]["pairs"]] == ["r1"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("nowhere",), "E501"),
        (("done", "-o", "no/such/folder/x.html"), "E502"),
        (("done", "--max-samples", "-1"), "E119"),
        ((), "E119"),
    ],
)
def test_what_cannot_be_done_is_an_error(
    call: Call, run_folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: str
) -> None:
    """Nothing is written, and the exit code is 2."""
    monkeypatch.chdir(run_folder.parent)
    refused = call("report", *words, "--json")
    assert refused.code == 2
    assert refused.json["error"]["code"] == code
    assert not list(Path().glob("*.html"))
