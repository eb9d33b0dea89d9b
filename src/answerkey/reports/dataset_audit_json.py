"""The audit of datasets as plain values: what `audit-dataset --json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from answerkey.text import clean_numbers
from answerkey.verbs.dataset_audits import DatasetAudit, TruthStatistics


def describe_dataset_audits(audits: Sequence[DatasetAudit]) -> dict[str, Any]:
    """Return every dataset with its numbers and every finding with its examples."""
    notices = [str(notice) for audit in audits for notice in audit.notices]
    described: dict[str, Any] = clean_numbers(
        {"datasets": [_describe(audit) for audit in audits], "notices": notices}
    )
    return described


def _describe(audit: DatasetAudit) -> dict[str, Any]:
    return {
        "name": audit.name,
        "files": list(audit.files),
        "rows": audit.rows,
        "fields": dict(audit.fields),
        "all": _describe_truths(audit.every),
        "clean": None if audit.clean is None else _describe_truths(audit.clean),
        "label_quality": None if audit.quality is None else asdict(audit.quality),
        "findings": [asdict(one) for one in audit.findings],
    }


def _describe_truths(one: TruthStatistics) -> dict[str, Any]:
    return {
        "n": one.n,
        "choice_counts": {str(size): count for size, count in one.sizes.items()},
        "chance": one.chance,
        "labels": dict(one.labels),
        "places": {str(size): list(counts) for size, counts in one.places.items()},
        "majority_letter": None if one.majority is None else asdict(one.majority),
        "longest_option": None if one.longest is None else asdict(one.longest),
        "position_skew": None if one.skew is None else asdict(one.skew),
    }
