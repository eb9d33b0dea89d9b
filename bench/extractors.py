"""Right and wrong letters of `stated_answer` and of other harnesses' extractors, on the same
replies.

The sealed half of the corpus (tests/cases/corpus), and, where `../shared/data` lies beside the
project, the MMLU-Pro outputs that state `the answer is (X)` exactly once. The extractors are our
own code for what each harness does; the long series holds six of them against the harnesses' own
code. A harness usually asks for its own form of answer in its prompt: here each reads replies that
were not written for it.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from answerkey.reader import EXTRACTORS, read

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "tests" / "cases"
SEALED = CASES / "corpus" / "sealed.jsonl"
DATA = ROOT.parent / "shared" / "data"
OUTPUTS = ROOT.parent / "shared" / "data" / "mmlu_pro_outputs"
LETTERS = "ABCDEFGHIJ"
WRITTEN = re.compile(r"\bthe answer is \([A-J]\)", re.IGNORECASE)
STATED = re.compile(r"\bthe answer is \(([A-J])\)(?!\s*(?:,|and|or|/|&|\())", re.IGNORECASE)

Row = tuple[str, tuple[str, ...], list[str] | None, str | None]
Read = Callable[[str, tuple[str, ...], list[str] | None], str | None]


def list_sealed() -> Iterator[Row]:
    """Yield text, choices, options and label of the held-out replies."""
    yield from list_rows(SEALED)


def list_rows(file: Path) -> Iterator[Row]:
    """Yield text, choices, options and label of the labelled replies in a file."""
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        label = row.get("label", row.get("human_label"))
        if row["completion"] is not None:
            yield row["completion"], tuple(row["choices"]), row.get("options"), label


def list_plain() -> Iterator[Row]:
    """Yield replies that state made-up options in twenty plain forms."""
    forms = (CASES / "plain_forms.txt").read_text(encoding="utf-8").splitlines()
    for line in (CASES / "plain_options.jsonl").read_text(encoding="utf-8").splitlines():
        options = json.loads(line)
        for label, text in zip("ABCD", options, strict=True):
            for form in forms:
                yield form.format(label=label, text=text), tuple("ABCD"), options, label


def list_outputs() -> Iterator[Row]:
    """Yield the same of MMLU-Pro outputs, whose label is what they state once."""
    for file in sorted(OUTPUTS.glob("*_5shots.zip")):
        with zipfile.ZipFile(file) as archive:
            rows = json.loads(archive.read(archive.namelist()[0]))
        for row in rows:
            text = row.get("generated_text") or row.get("model_outputs") or ""
            choices, letters = LETTERS[: len(row["options"])], STATED.findall(text)
            if len(WRITTEN.findall(text)) == 1 and len(letters) == 1 and letters[0] in choices:
                yield text, tuple(choices), row["options"], letters[0]


def count(rows: list[Row], reader: Read) -> Counter[str]:
    """Return how often a reader is right, names a wrong letter, or reads nothing where something is
    said.
    """
    result: Counter[str] = Counter()
    for text, choices, options, label in rows:
        choice = reader(text, choices, options)
        result["right" if choice == label else "missed" if choice is None else "wrong"] += 1
    return result


def list_readers() -> dict[str, Read]:
    """Return our own reader and the extractors of other harnesses, by name."""
    ours: dict[str, Read] = {"answerkey `stated_answer`": lambda *row: read(*row).choice}
    return ours | {name: extractor.read for name, extractor in EXTRACTORS.items()}


def print_own() -> None:
    """Print how `stated_answer` reads each set of labelled replies that is at hand."""
    files = [*sorted((CASES / "corpus").glob("*.jsonl")), *sorted(DATA.glob("tricky*.jsonl"))]
    sets = {file.stem: list(list_rows(file)) for file in files}
    sets["plain forms"] = list(list_plain())
    print("| replies | rows | right | missed | wrong |\n|---|---|---|---|---|")
    for title, rows in sets.items():
        counts = count(rows, lambda *row: read(*row).choice)
        figures = f"{counts['right']:,} | {counts['missed']:,} | {counts['wrong']:,}"
        print(f"| {title} | {len(rows):,} | {figures} |")


def main() -> None:
    """Print our own figures, and one table for each of two sets, the fewest wrong letters first."""
    print_own()
    readers = list_readers()
    sets = {"sealed corpus": list(list_sealed()), "MMLU-Pro outputs": list(list_outputs())}
    for title, rows in sets.items():
        if not rows:
            print(f"\n{title}: not at hand")
            continue
        counts = {name: count(rows, reader) for name, reader in readers.items()}
        order = sorted(counts, key=lambda name: (counts[name]["wrong"], -counts[name]["right"]))
        print(f"\n| {title}, {len(rows):,} replies | right | wrong letter | nothing read |")
        print("| --- | ---: | ---: | ---: |")
        for name in order:
            result = counts[name]
            print(f"| {name} | {result['right']:,} | {result['wrong']:,} | {result['missed']:,} |")


if __name__ == "__main__":
    main()
