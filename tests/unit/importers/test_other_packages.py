"""Importers that another package brings through an entry point."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

from answerkey import types
from answerkey.importers import Log, LogReader, Question, Record, detect_kind, imports
from answerkey.types import Completion, Registry

from .conftest import Desk

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "importers.md"


class QuizReader(LogReader):
    """Reads rows of an invented tool, which are rows of a plain table as well."""

    kind: ClassVar[str] = "quiz"
    row_keys: ClassVar[tuple[set[str], ...]] = ({"prompt_text", "verdict"},)

    def read(self, log: Log) -> Iterator[Record]:
        """Yield the rows of each file."""
        for file in log.files():
            for row in log.rows(file):
                question = Question(row.text("prompt_text"), choices=("A", "B"), truth="A")
                yield Record(str(row.text("id")), question, Completion(row.text("completion")))


def test_a_log_of_another_package_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader is asked before the one that takes any table."""
    point = EntryPoint("quiz", f"{__name__}:QuizReader", "answerkey.importers")
    monkeypatch.setattr(types, "entry_points", lambda **_: [point])
    own = {reader.kind: reader for reader in imports._KINDS}
    readers: Registry[LogReader] = Registry("answerkey.importers", own, own.__getitem__)
    monkeypatch.setattr(imports, "READERS", readers)
    monkeypatch.setitem(readers._loaded, "quiz", QuizReader)
    row = {"id": "1", "prompt_text": "A or B?", "completion": "A", "verdict": 1}
    (tmp_path / "log.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert detect_kind(tmp_path / "log.jsonl") == "quiz"
    (tmp_path / "table.jsonl").write_text('{"id": "1", "completion": "A"}', encoding="utf-8")
    assert detect_kind(tmp_path / "table.jsonl") == "plain"


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
    asked = desk.asked("question", "options", "answer", "original", task="one")
    assert asked == [("2 + 2?", ["3", "4"], "B", None)] * 2
    assert desk.said("completion", "their_score", task="one") == [("B", 1.0), ("A", 0.0)]
    broken = desk.lines("broken.jsonl", [row, {**row, "opts": "x"}])
    assert desk.refuse("`opts` is not a list of texts", broken).code == "E202"
