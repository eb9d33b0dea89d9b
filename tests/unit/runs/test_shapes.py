"""Laws of what the JSON files of a run look like."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from answerkey.runs.run import require_manifest, require_numbers

COUNTS = dict.fromkeys(("samples", "scored", "valid", "invalid", "refused", "failed", "errors"), 1)
ENTRY: dict[str, Any] = {
    "key": "mcqa",
    "display_name": None,
    "task": {},
    "model": {"name": "m", "simulated": False},
    "dataset": {
        "key": "rows",
        "display_name": None,
        "file": "rows.jsonl",
        "fingerprint": "f",
        "rows_read": 3,
        "rows_filtered": 0,
        "samples": 2,
        "category": None,
    },
    "completions": {"source": "live", "file": None, "sha256": None, "column": None},
    "config": {},
    "scorers": [{"key": "s", "display_name": None}],
    "selection": {"num_samples": None, "subsampling": "head", "seed": 0, "stratify_by": None},
    "counts": None,
}
MANIFEST: dict[str, Any] = {
    "key": "demo",
    "display_name": "Demo",
    "status": "complete",
    "files": {
        "tasks/mcqa/metrics.json": {"bytes": 9, "sha256": "ab", "tag": "t"},
        "tasks/mcqa/scores/part-00000.parquet": {"rows": 0, "bytes": 9, "sha256": "ab"},
    },
    "started_at": "2026-11-16T00:00:00Z",
    "notices": ["warning: x"],
    "tasks": [{**ENTRY, "encoded": {"s": ["values"]}}],
}
GROUP = {"group": "a", "value": 0.5, "n": 2, "interval": [0, 1.0]}
NUMBERS: dict[str, Any] = {
    "metrics": [
        {
            "name": "Accuracy",
            "value": None,
            "n": 2,
            "purpose": "score",
            "groups": [{"column": "c", "values": [GROUP], "macro": {**GROUP, "group": None}}],
        }
    ],
    "tally": {
        "counts": COUNTS,
        "completion_statuses": {"OK": 1},
        "invalid": {"EMPTY": {"count": 1, "example": {"sample_id": "1", "completion": None}}},
        "failed": {},
        "errors": {},
        "excluded": {},
        "letters": {"A": {"A": 1}},
        "choice_counts": {"4": 1},
        "category_column": None,
        "categories": {"x": {"n": 1, "correct": 0, "partial": 0}},
        "readings": {
            "n": 1,
            "samples": 1,
            "own_rule": {"r": 1},
            "rules": {"own": {"correct": 0.5, "invalid": 0}},
        },
    },
}
Change = Callable[[dict[str, Any]], object]


def require(change: Change) -> None:
    """Require the shapes of both files after a change of one.

    Keys of the other are unknown to each.
    """
    whole = copy.deepcopy(MANIFEST | NUMBERS)
    change(whole)
    require_manifest(whole)
    require_numbers(whole)


def test_what_is_written_is_taken() -> None:
    """Also with keys that this release does not know, and with numbers that have a comma or
    none.
    """
    require(lambda one: one["metrics"][0].update(value=1, more=[]))
    require(lambda one: one["tally"].update(readings={}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.pop("status"), "`run` has no `status`"),
        (lambda one: one.update(status="done"), "not one of running, complete, incomplete"),
        (
            lambda one: one.update(started_at="\x1b[2J"),
            r"`run.started_at` is '\\x1b\[2J', not a time",
        ),
        (lambda one: one.update(notices="x"), "`run.notices` is 'x', not a list"),
        (lambda one: one.update(tasks=[1]), r"`run.tasks\[0\]` is 1, not an object"),
        (lambda one: one["tasks"][0].update(model={}), r"`run.tasks\[0\].model` has no `name`"),
        (lambda one: one["tasks"][0]["model"].update(simulated=1), "not true or false"),
        (lambda one: one["tasks"][0]["dataset"].update(rows_read=-1), "is -1, not a count"),
        (lambda one: one["tasks"][0].update(scorers=[{"key": None}]), "is None, not text"),
        (
            lambda one: one["tasks"][0].update(encoded={"s": "values"}),
            "`.*encoded.s` is 'values', not a list",
        ),
        (lambda one: one.pop("tally"), "`numbers` has no `tally`"),
        (lambda one: one["metrics"][0].update(n=True), "is True, not a count"),
        (lambda one: one["metrics"][0].update(value="1" * 99), "is '11+…, not a number"),
        (lambda one: one["metrics"][0].update(value=10**400), "not a number"),
        (lambda one: one["metrics"][0].update(interval=[0.5]), r"is \[0.5\], not a pair"),
        (lambda one: one["metrics"][0].update(purpose=[]), "not one of score, qa"),
        (lambda one: one["metrics"][0]["groups"][0]["macro"].pop("group"), "macro` has no `group`"),
        (
            lambda one: one["tally"]["counts"].pop("errors"),
            "`numbers.tally.counts` has no `errors`",
        ),
        (
            lambda one: one["tally"]["letters"].update(B=1),
            "`numbers.tally.letters.B` is 1, not an object",
        ),
        (lambda one: one["tally"].update(choice_counts={"x": 1}), "not a number of choices"),
        (
            lambda one: one["tally"].update(choice_counts={"0": 1}),
            "is '0', not a number of choices",
        ),
        (lambda one: one["tally"]["letters"]["A"].update(B=0), "is 0, not a count above 0"),
        (lambda one: one["tally"]["letters"].update(B={}), "not an object with entries"),
        (
            lambda one: one["tally"]["counts"].update(scored=0),
            "counts.scored` is 0, not a count above 0",
        ),
        (
            lambda one: one["tally"]["categories"]["x"].update(correct=2),
            "as many samples as it has right",
        ),
        (
            lambda one: one["tally"]["readings"]["rules"]["own"].update(correct=9),
            "a part of what was read",
        ),
        (lambda one: one["tally"]["readings"].update(own_rule={}), "not an object with entries"),
        (lambda one: one["tally"]["readings"].update(rules={}), "readings.rules` has no `own`"),
    ],
)
def test_what_looks_otherwise_is_refused(change: Change, said: str) -> None:
    """With the way to what is wrong, and what stands there, before anything is made of it."""
    with pytest.raises(ValueError, match=said):
        require(change)
