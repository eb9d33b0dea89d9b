"""The values that pages quote: lists of the code, and numbers measured from recorded replies.

A page marks each one with a comment before and after it: `value: KEY` and `/value`.
`scripts/docs.py` writes what `make_values` returns between them. Numbers that need the material
beside the project (`../shared/data`) are left as they stand where it is missing.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from answerkey.models.names import PROVIDERS
from answerkey.spec.ready_made import list_ready_made

ROOT = Path(__file__).resolve().parent.parent
MATERIAL = ROOT.parent / "shared" / "data"
HELM = MATERIAL / "helm_mmlu" / "helm_mmlu.jsonl"
OPUS, GPT_4O = "anthropic_claude-3-opus-20240229", "openai_gpt-4o-2024-05-13"
#: The replies that `bench/run.py` scores by `stated_answer`: the row of the table, and how many
#: they are.
SPEEDS = {
    "speed-replies": ("different replies", 100_000),
    "speed-chains": ("different chains", 20_000),
}
#: The columns of the table in the README.
READERS = {"answerkey": "answerkey `stated_answer`", "lm-eval": "lm-eval", "inspect": "Inspect"}


def make_values() -> dict[str, str]:
    """Return every value that can be made here, by its key."""
    values = dict([*list_names(), *list_speeds(), *list_readings()])
    if HELM.exists():
        values |= dict(list_mmlu())
    else:
        print(f"docs: {MATERIAL} is not there; numbers that are measured from it stay as they are")
    return values


def list_names() -> Iterator[tuple[str, str]]:
    """Yield the ready-made tasks and the providers that the code knows."""
    tasks = list_ready_made()
    yield "tasks", write_names(tasks)
    yield "task-count", str(len(tasks))
    yield (
        "providers",
        write_names([name for name, provider in PROVIDERS.items() if not provider.is_local]),
    )
    yield (
        "local-servers",
        write_names([name for name, provider in PROVIDERS.items() if provider.is_local]),
    )


def write_names(names: list[str]) -> str:
    """Return names in code form, with commas between them."""
    return ", ".join(f"`{name}`" for name in names)


def list_speeds() -> Iterator[tuple[str, str]]:
    """Yield replies per second, to two digits, from the times on the performance page."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for key, (work, rows) in SPEEDS.items():
        row = re.search(rf"\|`score` by `stated_answer`[^|]*{work}\|[^|]*CPU s, ([\d.]+) s,", page)
        if row is None:
            raise SystemExit(f"docs/performance.md has no row for {work!r}")
        speed = rows / float(row[1])
        yield key, f"{float(f'{speed:.1e}'):,.0f}"


def list_readings() -> Iterator[tuple[str, str]]:
    """Yield the accuracy of each reader on the held-out corpus, and on MMLU-Pro's outputs if they
    are there.
    """
    bench = runpy.run_path(str(ROOT / "bench" / "extractors.py"))
    replies = {"sealed": bench["list_sealed"], "mmlu-pro": bench["list_outputs"]}
    readers = bench["list_readers"]()
    for name, list_rows in replies.items():
        rows = list(list_rows())
        if not rows:
            continue
        yield f"{name}-rows", f"{len(rows):,}"
        for key, title in READERS.items():
            counts = bench["count"](rows, readers[title])
            yield (
                f"{name}-{key}",
                f"{counts['right']:,} / {counts['wrong']:,} / {counts['missed']:,}",
            )
            if key == "answerkey":
                yield f"{name}-right", f"{counts['right']:,}"
                yield f"{name}-right-share", f"{100 * counts['right'] / len(rows):.2f} %"
                yield f"{name}-wrong", f"{counts['wrong']:,}"
                yield f"{name}-wrong-share", f"{100 * counts['wrong'] / len(rows):.1f} %"
                yield f"{name}-missed", f"{counts['missed']:,}"


def list_mmlu() -> Iterator[tuple[str, str]]:
    """Yield what the commands say about HELM's replies to MMLU, as a data file without a task is
    scored.
    """
    with tempfile.TemporaryDirectory() as folder:
        for model in (OPUS, GPT_4O):
            call(
                folder,
                "score",
                str(HELM),
                "--completion-column",
                f"completions.{model}",
                "--out",
                model,
            )
        plain = call(folder, "show", OPUS)["tasks"][0]["metrics"][0]
        clustered = call(folder, "show", OPUS, "--cluster-by", "subject")["tasks"][0]["metrics"][0]
        (pair,) = call(folder, "compare", OPUS, GPT_4O)["comparison"]["tasks"][0]["pairs"]
    yield "mmlu-rows", f"{plain['n']:,}"
    yield "mmlu-right", f"{plain['details']['count']:,}"
    yield "mmlu-error", f"{100 * plain['std_error']:.2f}"
    yield "mmlu-clusters", str(clustered["details"]["clusters"])
    yield "mmlu-clustered-error", f"{100 * clustered['std_error']:.2f}"
    yield "mmlu-difference", f"{100 * pair['difference']:.2f}"
    yield "mmlu-first-only", f"{pair['flips']['first_only']:,}"
    yield "mmlu-second-only", f"{pair['flips']['second_only']:,}"
    yield "mmlu-p", f"{pair['p']:.2f}"
    yield "mmlu-p-share", f"{100 * pair['p']:.0f} %"


def call(folder: str, *words: str) -> dict[str, Any]:
    """Return what a command prints as JSON."""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "answerkey", *words, "--json", "-q"],
        cwd=folder,
        capture_output=True,
        check=True,
        env={"HOME": folder, "PATH": ""},
    )
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed
