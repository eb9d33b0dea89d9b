"""Importers that another package brings through an entry point."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

from answerkey import types
from answerkey.importers import Log, LogReader, Question, Record, detect_kind, imports
from answerkey.types import Completion, Registry


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
