"""Every extractor of another harness and every kind of finding is on its reference page."""

from __future__ import annotations

import re
from pathlib import Path

from answerkey.reader import EXTRACTORS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "answerkey"
RUNS = (ROOT / "docs" / "reference" / "audit.md").read_text(encoding="utf-8")
DATASETS = (ROOT / "docs" / "reference" / "audit-dataset.md").read_text(encoding="utf-8")


def read_kinds(*modules: str) -> set[str]:
    """Return the kinds of findings that modules name."""
    texts = "\n".join((SOURCE / f"{name}.py").read_text(encoding="utf-8") for name in modules)
    result = set(re.findall(r'"([A-Z]{4,}(?:_[A-Z]+)+|ONE_CHOICE|FORMAT|CUT_OFF|MOJIBAKE)"', texts))
    return result | set(re.findall(r'Finding\(\s*"([A-Z_]+)"', texts))


def list_documented(page: str) -> set[str]:
    """Return the kinds in the first cells of the table of findings."""
    table = page.partition("| kind |")[2].partition("\n\n")[0]
    return {
        name
        for cell in re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    }


def test_every_extractor_says_what_it_reads() -> None:
    """The table has each extractor by its name, with the sentence of the code."""
    table = dict(
        re.findall(r"^\| `([^`]+)` \| (.+) \|$", RUNS.partition("## Findings")[0], re.MULTILINE)
    )
    assert table == {name: extractor.about for name, extractor in EXTRACTORS.items()}


def test_every_finding_of_a_run_is_explained() -> None:
    """Each kind of the code is in the table, and each of the table in the code."""
    kinds = read_kinds("run_audit/findings")
    kinds |= {"INVALID", "DOUBTED"}
    assert list_documented(RUNS) == kinds


def test_every_finding_of_a_dataset_is_explained() -> None:
    """Each kind of the code is in the table, and each of the table in the code."""
    assert list_documented(DATASETS) == read_kinds("dataset_audit/audit", "dataset_audit/questions")
