"""The extractors of other harnesses against these harnesses' own code, on the same 5,000
completions.

A part of the long series. Each tool is installed once, without what it depends on, into a folder of
its own below `build`; `tool_side.py` calls its function there.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.processes import run_python

from answerkey.reader import EXTRACTORS

pytestmark = pytest.mark.skipif(
    not os.environ.get("ANSWERKEY_LONG"), reason="tools are installed in the long series"
)
HERE = Path(__file__).parent
DATA = HERE.parents[2] / "shared" / "data"
TOOLS = HERE.parents[1] / "build" / "tools"
#: The packages of the tools.
PACKAGES = {
    "Inspect": "inspect-ai==0.3.285",
    "VLMEvalKit": "ms-vlmeval==0.0.20",
    "evalscope": "evalscope==1.14.1",
    "lighteval": "lighteval==0.13.0",
    "lm-eval": "lm-eval==0.4.13",
    "opencompass": "opencompass==0.5.4",
}
COUNT = 5_000
LETTERS = list("ABCDEFGHIJ")

# What made completions are put together from: @X is a label, @T its text, @Y another label, @x, @y
# the same in lower case.
PIECES: dict[str, list[str]] = json.loads((HERE / "pieces.json").read_text(encoding="utf-8"))


def make_rows() -> list[dict[str, Any]]:
    """Make completions in which marks, cues, case, order and several letters meet at random."""
    drawn = random.Random(17)
    rows = []
    kinds = ("openings", "cues", "labels", "endings")
    for _ in range(COUNT):
        text = ""
        size = drawn.choice((2, 4, 4, 4, 5, 10))
        options = drawn.sample(PIECES["options"], size)
        for _ in range(drawn.choice((1, 1, 2))):
            place = drawn.randrange(size)
            second = drawn.randrange(size)
            part = "".join(drawn.choice(PIECES[kind]) for kind in kinds)
            for mark, name in (("@X", LETTERS[place]), ("@Y", LETTERS[second])):
                part = part.replace(mark, name).replace(mark.lower(), name.lower())
            text += part.replace("@T", options[place])
        rows.append({"text": text, "choices": LETTERS[:size], "options": options})
    return rows


def read_rows() -> list[dict[str, Any]]:
    """Read all short files, a thousand completions of one token, and chains of thought for the
    rest.

    None where the shared material is not there.
    """
    if not DATA.is_dir():
        return []
    drawn = random.Random(17)
    short, tokens, chains = (
        [row for row in rows if row["choices"] == LETTERS[: len(row["choices"])]]
        for rows in (_read_short(), _read_tokens(), _read_chains())
    )
    rows = [*short, *drawn.sample(tokens, 1_000)]
    return rows + drawn.sample(chains, COUNT - len(rows))


def _read_short() -> Iterator[dict[str, Any]]:
    for path in sorted(DATA.glob("tricky_completions*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            text = row["completion"] or ""
            yield {"text": text, "choices": row["choices"], "options": row["options"]}
    for path in sorted(DATA.glob("inspect_logs/*.eval")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.startswith("samples/"):
                    row = json.loads(archive.read(name))
                    yield _letter(row["output"]["completion"], row["choices"])


def _read_tokens() -> Iterator[dict[str, Any]]:
    with (DATA / "helm_mmlu" / "helm_mmlu.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            for text in row["completions"].values():
                yield _letter(text, row["options"])


def _read_chains() -> Iterator[dict[str, Any]]:
    for path in sorted(DATA.glob("mmlu_pro_outputs/*.zip")):
        with zipfile.ZipFile(path) as archive:
            for row in json.loads(archive.read(archive.namelist()[0])):
                text = row.get("generated_text") or row.get("model_outputs") or ""
                yield _letter(text, row["options"])


def _letter(text: str, options: list[str]) -> dict[str, Any]:
    return {"text": text, "choices": LETTERS[: len(options)], "options": options}


def install(tool: str) -> Path:
    """Return the folder of a tool, which is installed the first time."""
    package = PACKAGES[tool]
    folder, draft = TOOLS / package, TOOLS / f"{package}.draft"
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade"]
        command = [*pip, "--target", str(draft), package]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{package} cannot be installed: {done.stderr.strip()[-200:]}")
        draft.rename(folder)
    return folder


@pytest.mark.parametrize("make", [make_rows, read_rows])
@pytest.mark.parametrize("tool", PACKAGES)
def test_extractors_read_as_harnesses(tool: str, make: Callable[[], list[dict[str, Any]]]) -> None:
    """In at least 99.5 % of made and of real completions: the same choice, or none."""
    rows = make()
    if not rows:
        pytest.skip("the shared material is not there")
    script = [str(HERE / "tool_side.py"), str(install(tool)), tool]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = run_python("-I", "-W", "ignore", *script, input=lines, check=True)
    differences = []
    for row, line in zip(rows, done.stdout.splitlines(), strict=True):
        theirs = json.loads(line)
        ours = EXTRACTORS[tool].read(row["text"], row["choices"], row["options"])
        if ours != (theirs if theirs in row["choices"] else None):
            differences.append(f"{theirs} there, {ours} here: {row['text'][-200:]!r}")
    assert len(differences) <= len(rows) * 0.005, "\n".join(differences[:20])
