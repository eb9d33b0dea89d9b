"""Laws of what the JSON files of a run look like."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from answerkey.errors import RunError
from answerkey.runs.manifest import Manifest, Metrics, require_shape

COUNTS = dict.fromkeys(
    ("samples", "scored", "valid", "invalid", "refused", "declined", "failed", "errors"), 1
)
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
        "tasks/mcqa/metrics.json": {"bytes": 9, "sha256": "ab"},
        "tasks/mcqa/scores/part-00000.parquet": {"bytes": 9, "sha256": "ab"},
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
    require_shape(Manifest, whole, "run.json")
    require_shape(Metrics, whole, "metrics.json")


def test_what_is_written_is_taken() -> None:
    """Also with keys that this release does not know, and with numbers that have a comma or
    none.
    """
    require(lambda one: one["metrics"][0].update(value=1, more=[]))
    require(lambda one: one["tally"].update(readings={}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one.pop("status"), "`run.json` is .*: it has no `status`"),
        (lambda one: one.update(status="done"), "should be 'running', 'complete' or 'incomplete'"),
        (
            lambda one: one.update(started_at="\x1b[2J"),
            r"`started_at` is '\\x1b\[2J': it should be",
        ),
        (lambda one: one.update(started_at="2026-11-16T00:00:00"), "it should have timezone info"),
        (lambda one: one.update(notices="x"), "`notices` is 'x': it should be a valid array"),
        (lambda one: one.update(tasks=[1]), r"`tasks\[0\]` is 1: it should be an object"),
        (lambda one: one["tasks"][0].update(model={}), r"it has no `tasks\[0\].model.name`"),
        (lambda one: one["tasks"][0]["model"].update(simulated=1), "should be a valid boolean"),
        (
            lambda one: one["tasks"][0]["dataset"].update(rows_read=-1),
            r"dataset.rows_read` is -1: it should be greater than or equal to 0",
        ),
        (
            lambda one: one["tasks"][0].update(scorers=[{"key": None}]),
            r"scorers\[0\].key` is None: it should be a valid string",
        ),
        (
            lambda one: one["tasks"][0].update(encoded={"s": "values"}),
            "encoded.s` is 'values': it should be a valid array",
        ),
        (lambda one: one.pop("files"), "a run that has ended lists its `files`"),
        (lambda one: one.update(gates=[{"policy": "p"}]), r"it has no `gates\[0\].rule`"),
        (lambda one: one.update(policies=[{"key": "p"}]), r"it has no `policies\[0\].rules`"),
        (lambda one: one.pop("tally"), "`metrics.json` is .*: it has no `tally`"),
        (lambda one: one["metrics"][0].update(n=True), "n` is True: it should be a valid integer"),
        (lambda one: one["metrics"][0].update(n=2**63), "cannot be a number of samples"),
        (
            lambda one: one["metrics"][0].update(value="1" * 99),
            "is '11+…: it should be a valid num",
        ),
        (lambda one: one["metrics"][0].update(value=10**400), "E503"),
        (lambda one: one["metrics"][0].update(value=float("inf")), "inf cannot be the value"),
        (lambda one: one["metrics"][0].update(value=float("nan")), "nan cannot be the value"),
        (
            lambda one: one["metrics"][0].update(interval=[0.5]),
            r"it has no `metrics\[0\].interval\[1\]`",
        ),
        (lambda one: one["metrics"][0].update(note=7), r"metrics\[0\].note` is 7: it should be"),
        (
            lambda one: one["metrics"][0]["groups"][0]["macro"].update(n=-1),
            "-1 cannot be a number of samples",
        ),
        (lambda one: one["metrics"][0].update(purpose=[]), "it should be 'score' or 'qa'"),
        (lambda one: one["metrics"][0]["groups"][0]["macro"].pop("group"), "no `.*macro.group`"),
        (lambda one: one["tally"]["counts"].pop("errors"), "it has no `tally.counts.errors`"),
        (
            lambda one: one["tally"]["letters"].update(B=1),
            "`tally.letters.B` is 1: it should be an object",
        ),
        (lambda one: one["tally"].update(choice_counts={"x": 1}), "choice_counts.x.* is 'x': "),
        (lambda one: one["tally"].update(choice_counts={"0": 1}), "choice_counts.0.* is '0': "),
        (
            lambda one: one["tally"]["letters"]["A"].update(B=0),
            "`tally.letters.A.B` is 0: it should be greater than 0",
        ),
        (lambda one: one["tally"]["letters"].update(B={}), "should have at least 1 item"),
        (lambda one: one["tally"]["counts"].update(scored=0), "invalid, but none was scored"),
        (
            lambda one: one["tally"]["categories"]["x"].update(correct=2),
            "categories.x` is .* no more right samples than samples",
        ),
        (
            lambda one: one["tally"]["readings"]["rules"]["own"].update(correct=9),
            "a rule cannot read more completions than there are",
        ),
        (lambda one: one["tally"]["readings"].update(own_rule={}), "not by the rule of the task"),
        (lambda one: one["tally"]["readings"].update(rules={}), "not by the rule of the task"),
    ],
)
def test_what_looks_otherwise_is_refused(change: Change, words: str) -> None:
    """E503 has the path of the field, what stands there, and what should."""
    with pytest.raises(RunError, match=words):
        require(change)
