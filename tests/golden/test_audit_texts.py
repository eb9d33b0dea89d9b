"""What the audits print, letter by letter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., Any]
Compare = Callable[[str, str], None]
Settle = Callable[[str], str]

ROWS = [
    {
        "question": "Which city is the capital of Australia?",
        "options": ["Sydney", "Canberra"],
        "answer": "B",
    },
    {
        "question": "Which city is the capital of  Australia?",
        "options": ["Canberra", "Sydney"],
        "answer": "B",
    },
    {
        "question": "Which is red?",
        "options": ["red", "dark red", "All of the above"],
        "answer": "D",
    },
    {"question": "What did the fiancÃ©e say?", "options": ["yes", "yes", ""], "answer": "A"},
    {"question": None, "options": ["yes", "Both A and C", "no &amp; yes"], "answer": None},
]


def test_audit(call: Call, compare: Compare) -> None:
    """The audit of the built-in example."""
    assert call("demo").code == 0
    compare("audit.txt", call("audit", "answerkey-demo/runs/demo-1").out)


def test_audit_as_json(call: Call, compare: Compare, settle: Settle) -> None:
    """The object of `audit --json`."""
    assert call("demo").code == 0
    compare("audit.json", settle(call("audit", "answerkey-demo/runs/demo-1", "--json").out))


def test_audit_dataset(call: Call, compare: Compare) -> None:
    """The audit of some bad questions."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    Path("rows.jsonl").write_text(text, encoding="utf-8")
    compare("audit-dataset.txt", call("audit-dataset", "rows.jsonl").out)
