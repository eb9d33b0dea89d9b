"""Finished runs on the same twelve questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER, describe_task, write_rows

import answerkey as ak

TRUTHS = "AABBAABBAABB"
Row = dict[str, Any]
Make = Callable[..., ak.Run]


def rows_of(said: Sequence[str], truths: str = TRUTHS, **columns: Any) -> list[Row]:  # noqa: ANN401 - any cells
    """Return a row for each reply; `?` is not a choice."""
    return [
        {"sample_id": f"q{place}", "answer": truth, "completion": text}
        | {name: values[place] for name, values in columns.items()}
        for place, (truth, text) in enumerate(zip(truths, said, strict=True))
    ]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a function that creates runs below `runs`, from letters or from rows.

    Where each sample was answered several times (`AB`), every letter is a trial.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def make_run(
        name: str,
        said: Sequence[Any],
        *,
        definition: Row | None = None,
        **options: Any,  # noqa: ANN401 - of `run`
    ) -> ak.Run:
        folder = tmp_path / name
        folder.mkdir()
        rows = list(said) if isinstance(said[0], dict) else rows_of(said, TRUTHS[: len(said)])
        trials = max(len(str(row["completion"])) for row in rows)
        parts: Row = {"scorers": [SCORER], **(definition or {})}
        if trials > 1:
            parts["trials"] = {"num_trials": trials}
            texts = [
                {"sample_id": row["sample_id"], "trial": trial, "completion": letter}
                for row in rows
                for trial, letter in enumerate(row.pop("completion"))
            ]
            options["completions"] = str(write_rows(folder / "said.jsonl", texts))
        (folder / "task.yaml").write_text(json.dumps(describe_task(**parts)))
        dataset = write_rows(folder / "rows.jsonl", rows)
        files: Row = {"dataset": str(dataset), "out": tmp_path / "runs" / name}
        return ak.run(folder / "task.yaml", **files, **options)

    return make_run
