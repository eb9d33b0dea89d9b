"""The importer that the page shows as an example."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from answerkey.importers import imports

from .conftest import Desk

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "importers.md"


def test_the_importer_of_the_page_reads_logs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is a task, whose truths are labels; a line without options is broken."""
    text = PAGE.read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (line,) = re.findall(r"lines such as `(.+?)`:\n", text)
    reader = runpy.run_path(str(desk.write("my_tool.py", source)))["MyReader"]
    readers = {**imports.OWN_READERS, reader.kind: reader}
    monkeypatch.setattr(imports, "READERS", readers)
    row = json.loads(line)
    desk.lines("log/one.jsonl", [row, {**row, "id": "2", "out": "A", "ok": 0}])
    log = desk.lines("log/two.jsonl", [row]).parent
    assert [task.key for task in desk.bring(log).tasks] == ["one", "two"]
    questions = desk.asked("question", "options", "answer", "original", task="one")
    assert questions == [("2 + 2?", ["3", "4"], "B", None)] * 2
    assert desk.said("completion", "imported_score", task="one") == [("B", 1.0), ("A", 0.0)]
    broken = desk.lines("broken.jsonl", [row, {**row, "opts": "x"}])
    assert desk.refuse("`opts` is not a list of texts", broken).code == "E202"
