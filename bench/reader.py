"""How fast `stated_answer` reads, beside a plain pass over the words of the same texts.

Replies of up to 200 characters, and chains of thought of about 900, each text another: recorded
ones where `../shared/data` lies beside the project, and else some of the same kind and length made
here.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from answerkey.reader import read

RECORDED = Path(__file__).resolve().parents[2] / "shared" / "data"
LONGEST_REPLY = 200
CHAIN = range(800, 1_001)
REPLIES, CHAINS = 3_000, 600
TURNS = 5

#: How many plain passes one reading may take: 24 and 5.5 were measured, and the rest is room for
#: noise.
MOST_PASSES = {"replies": 28.0, "chains of thought": 6.5}

_WORD = re.compile(r"\w+|[^\w\s]")
_KNOWN = dict.fromkeys(
    ("the", "a", "is", "answer", "option", "so", "not", "it", "correct", "because"), 1
)
_LETTERS = "ABCDEFGHIJ"

Text = tuple[str, Sequence[str], Sequence[str] | None]


@dataclass(frozen=True)
class Pace:
    """CPU seconds for one text: a reading, and a plain pass."""

    reading: float
    passing: float


def list_replies() -> list[Text]:
    """Return short replies with their choices and options."""
    rows = [
        json.loads(line)
        for file in sorted(RECORDED.glob("tricky_completions*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    texts = [
        (row["completion"], row["choices"], row.get("options"))
        for row in rows
        if 0 < len(row["completion"] or "") <= LONGEST_REPLY
    ]
    return texts or _make_replies()


def list_chains() -> list[Text]:
    """Return chains of thought with their choices and options."""
    texts: list[Text] = []
    for file in sorted((RECORDED / "mmlu_pro_outputs").glob("*.zip")):
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith(".json")]
            rows = [row for name in names for row in json.loads(archive.read(name))]
        for row in rows:
            text = row.get("model_outputs") or row.get("generated_text") or ""
            if len(text) in CHAIN:
                texts.append((text, _LETTERS[: len(row["options"])], row["options"]))
    random.Random(1).shuffle(texts)  # noqa: S311 - the same every time
    return texts or _make_chains()


def _make_replies() -> list[Text]:
    options = ["Sydney", "Canberra", "Melbourne", "Perth"]
    forms = [
        "{0}",
        "({0})",
        "The answer is {0}.",
        "**Answer:** {0}) {1}",
        "It is {1}.",
        "I am not sure.",
    ]
    forms += [
        "Not {0}, because it is too far west.",
        "A or B",
        "\\boxed{{{0}}}",
        "Die Antwort ist {0}.",
    ]
    pairs = list(zip("ABCD", options, strict=True))
    return [(form.format(*pair), "ABCD", options) for form in forms for pair in pairs]


def _make_chains() -> list[Text]:
    options = [f"{number / 4} m/s" for number in range(10)]
    steps = [
        "Let's think step by step.",
        "The speed v is given by the distance over the time it takes.\n",
    ]
    steps += [
        "So we have v = {0} / 4, which isn't a whole number.",
        "This means that the mass does not matter.",
    ]
    drawn = random.Random(1)  # noqa: S311 - the same every time
    texts: list[Text] = []
    for number in range(CHAINS):
        text = ""
        while len(text) < CHAIN.start:
            text += drawn.choice(steps).format(number) + " "
        texts.append((f"{text}The answer is ({drawn.choice(_LETTERS)}).", _LETTERS, options))
    return texts


def measure_reader() -> dict[str, Pace]:
    """Return the pace on short replies and on chains of thought, in turns, the best of each."""
    results = {}
    for name, texts, count in (
        ("replies", list_replies(), REPLIES),
        ("chains of thought", list_chains(), CHAINS),
    ):
        # A number in front, so that no text comes twice.
        rows = []
        for number in range(count):
            text, choices, options = texts[number % len(texts)]
            rows.append((f"{number} {text}", choices, options))
        turns = [(_time(_read, rows), _time(_pass, rows)) for _ in range(TURNS)]
        results[name] = Pace(*(min(costs) for costs in zip(*turns, strict=True)))
        pace = results[name]
        print(
            f"  {name}: {pace.reading * 1e6:.0f} µs a text ({1 / pace.reading:,.0f} a second)",
            flush=True,
        )
    return results


def _time(
    work: Callable[[str, Sequence[str], Sequence[str] | None], object], rows: list[Text]
) -> float:
    begin = time.process_time()
    for row in rows:
        work(*row)
    return (time.process_time() - begin) / len(rows)


def _read(text: str, choices: Sequence[str], options: Sequence[str] | None) -> object:
    return read(text, choices, options)


def _pass(text: str, _choices: Sequence[str], _options: Sequence[str] | None) -> object:
    return [_KNOWN.get(word.lower()) for word in _WORD.findall(text)]


def main() -> int:
    """Print the times per text; return 1 if a promise is missed."""
    is_kept = True
    for name, pace in measure_reader().items():
        ratio, most = pace.reading / pace.passing, MOST_PASSES[name]
        is_kept &= ratio <= most
        print(f"{name}: {ratio:.1f} times a plain pass over the words, at most {most}")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
