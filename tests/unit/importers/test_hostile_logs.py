"""Logs that somebody damaged, or made to do harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

ROW = {
    "question_id": 1,
    "question": "?",
    "options": ["x"],
    "answer": "A",
    "pred": "A",
    "model_outputs": "A",
}


def test_names_of_members_lead_nowhere(desk: Desk) -> None:
    """Nothing is unpacked: a path in an archive is a name."""
    desk.bring(
        desk.archive(
            "x.zip", {"../../evil.json": [ROW], "/etc/evil.json": [{**ROW, "question_id": 2}]}
        )
    )
    assert sorted(path.name for path in desk.folder.parent.glob("*evil*")) == []
    assert desk.asked("sample_id") == ["1", "2"]


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
