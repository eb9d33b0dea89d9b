"""Laws of what the JSON files of a run look like."""

from __future__ import annotations

import copy
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
#: What a field is changed into, to be removed.
GONE = object()
METRIC = "metrics.0"
READINGS = "tally.readings"


def require(*changes: tuple[str, object]) -> None:
    """Require the shapes of both files after changes of fields.

    Keys of the other file are unknown to each.
    """
    whole = copy.deepcopy(MANIFEST | NUMBERS)
    for path, value in changes:
        *steps, name = path.split(".")
        parent: Any = whole
        for step in steps:
            parent = parent[int(step) if step.isdecimal() else step]
        parent[name] = value
        if value is GONE:
            del parent[name]
    require_shape(Manifest, whole, "run.json")
    require_shape(Metrics, whole, "metrics.json")


def test_what_is_written_is_taken() -> None:
    """Also with keys that this release does not know, and with numbers that have a comma or
    none.
    """
    require((f"{METRIC}.value", 1), (f"{METRIC}.more", []))
    require((READINGS, {}))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("status", GONE, "`run.json` is .*: it has no `status`"),
        ("status", "done", "should be 'running', 'complete' or 'incomplete'"),
        ("started_at", "\x1b[2J", r"`started_at` is '\\x1b\[2J': it should be"),
        ("started_at", "2026-11-16T00:00:00", "it should have timezone info"),
        ("notices", "x", "`notices` is 'x': it should be a valid array"),
        ("tasks", [1], r"`tasks\[0\]` is 1: it should be an object"),
        ("tasks.0.model", {}, r"it has no `tasks\[0\].model.name`"),
        ("tasks.0.model.simulated", 1, "should be a valid boolean"),
        ("tasks.0.dataset.rows_read", -1, "is -1: it should be greater than or equal to 0"),
        ("tasks.0.scorers.0.key", None, r"scorers\[0\].key` is None: it should be a valid string"),
        ("tasks.0.encoded.s", "values", "encoded.s` is 'values': it should be a valid array"),
        ("files", GONE, "a run that has ended lists its `files`"),
        ("gates", [{"policy": "p"}], r"it has no `gates\[0\].rule`"),
        ("policies", [{"key": "p"}], r"it has no `policies\[0\].rules`"),
        ("tally", GONE, "`metrics.json` is .*: it has no `tally`"),
        (f"{METRIC}.n", True, "n` is True: it should be a valid integer"),
        (f"{METRIC}.n", 2**63, "cannot be a number of samples"),
        (f"{METRIC}.value", "1" * 99, "is '11+…: it should be a valid num"),
        (f"{METRIC}.value", 10**400, "E503"),
        (f"{METRIC}.value", float("inf"), "inf cannot be the value"),
        (f"{METRIC}.value", float("nan"), "nan cannot be the value"),
        (f"{METRIC}.interval", [0.5], r"it has no `metrics\[0\].interval\[1\]`"),
        (f"{METRIC}.note", 7, r"metrics\[0\].note` is 7: it should be"),
        (f"{METRIC}.purpose", [], "it should be 'score' or 'qa'"),
        (f"{METRIC}.groups.0.macro.n", -1, "-1 cannot be a number of samples"),
        (f"{METRIC}.groups.0.macro.group", GONE, "no `.*macro.group`"),
        ("tally.counts.errors", GONE, "it has no `tally.counts.errors`"),
        ("tally.letters.B", 1, "`tally.letters.B` is 1: it should be an object"),
        ("tally.letters.B", {}, "should have at least 1 item"),
        ("tally.letters.A.B", 0, "`tally.letters.A.B` is 0: it should be greater than 0"),
        ("tally.choice_counts", {"x": 1}, "choice_counts.x.* is 'x': "),
        ("tally.choice_counts", {"0": 1}, "choice_counts.0.* is '0': "),
        ("tally.counts.scored", 0, "invalid, but none was scored"),
        ("tally.categories.x.correct", 2, "categories.x` is .* no more right samples than samples"),
        (f"{READINGS}.rules.own.correct", 9, "cannot read more completions than there are"),
        (f"{READINGS}.own_rule", {}, "not by the rule of the task"),
        (f"{READINGS}.rules", {}, "not by the rule of the task"),
    ],
)
def test_what_looks_otherwise_is_refused(path: str, value: object, words: str) -> None:
    """E503 has the path of the field, what stands there, and what should."""
    with pytest.raises(RunError, match=words):
        require((path, value))
