"""Logs that somebody damaged, or made to do harm."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from answerkey.errors import AnswerkeyError
from answerkey.importers import import_log

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

LOG = Path(__file__).parent / "logs" / "inspect.eval"
ROW = {
    "question_id": 1,
    "question": "?",
    "options": ["x"],
    "answer": "A",
    "pred": "A",
    "model_outputs": "A",
}
EXAMPLES = 300 if os.environ.get("ANSWERKEY_LONG") else 10


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8),
    cut=st.booleans(),
)
def test_a_damaged_archive_is_refused_in_words(
    tmp_path: Path, changes: list[tuple[float, int]], *, cut: bool
) -> None:
    """Whatever byte is changed: an error of ours with a place, or an import; never a traceback."""
    raw = bytearray(LOG.read_bytes())
    for place, value in changes:
        raw[int(place * (len(raw) - 1))] = value
    path, out = tmp_path / "log.eval", tmp_path / "out"
    path.write_bytes(raw[: int(changes[0][0] * len(raw))] if cut else raw)
    try:
        import_log("inspect", path, out=out, allow_failed="100%")
    except AnswerkeyError as error:
        assert error.exit_code == 2  # noqa: PT017 - an import that works is good, too
    else:
        shutil.rmtree(out)


def test_names_of_members_lead_nowhere(desk: Desk) -> None:
    """Nothing is unpacked: a path in an archive is a name."""
    desk.bring(
        desk.archive(
            "x.zip", {"../../evil.json": [ROW], "/etc/evil.json": [{**ROW, "question_id": 2}]}
        )
    )
    assert sorted(path.name for path in desk.folder.parent.glob("*evil*")) == []
    assert desk.asked("sample_id") == ["1", "2"]


def test_a_bomb_is_named_and_left_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """One member does not take the memory of all others."""
    monkeypatch.setattr("answerkey.importers.archives.SMALL", 100_000)
    bomb = b"[" + b" " * 50_000_000 + b"]"
    log = desk.archive("x.zip", {"a.json": [ROW], "b.json": bomb}, method=8)
    desk.refuse("expands to more than 400 times its size", log)
    assert desk.bring(log, allow_failed="1").samples == 1


def test_text_that_is_not_utf8_is_named(desk: Desk) -> None:
    """By its line."""
    log = desk.folder / "output.jsonl"
    log.write_bytes(b'{"custom_id": "a", "response": null, "error": {}}\n{"custom_id": "\xff"}\n')
    error = desk.refuse("byte 0xff is not valid UTF-8", log)
    assert error.where is not None
    assert error.where.line == 2


def test_yaml_of_an_import_is_read_back_whatever_a_log_is_called(desk: Desk) -> None:
    """Names of tasks and models are values, never code or another key."""
    import answerkey as ak

    name = 'a: b #c "d" {{ 1/0 }} << config.x >> $HOME !include x \u2028 \x07'
    row = {
        "doc_id": 0,
        "doc": {"question": "?", "choices": ["x", "yy"]},
        "target": "A",
        "filter": "none",
    }
    said = {
        "resps": [["A"]],
        "filtered_resps": ["A"],
        "metrics": ["exact_match"],
        "exact_match": 1.0,
    }
    desk.lines("samples_x_2026-01-01T00-00-00.jsonl", [row | said])
    desk.json("results_2026-01-01T00-00-00.json", {"model_name": name, "results": {}})
    result = desk.bring(desk.folder / "samples_x_2026-01-01T00-00-00.jsonl")
    assert result.tasks[0].description.model == name
    assert ak.run(result.folder, out=desk.folder / "run").metrics["Accuracy"].value == 1.0
