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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
OPTIONS = (
    "Sydney", "Canberra", "Guilty", "Guilty of Romance", "not guilty", "5", "-5", "1.5 m/s", "the answer",  # noqa: E501 - one case a line
    "None of the above", "A dog", "vitamin C", "…", "悉尼", "I", "New York", "York", "Both A and B", "x - y",  # noqa: E501 - one case a line
)  # fmt: skip
OPENINGS = (
    "", "", "", "Sure! ", "Let me think. A good question.\n", "I looked at A and C first.\n\n",
    "<think>B?</think>\n", "1. First, Dobson's rule.\n2. Then the rest.\n", "分析：@Y不对。\n",
    "Sorry, I can't help with images of people yet. ", "Both (A) and (@Y) look right, but ",
    "**Step 1:** Consider X.\n\n", "@Y is wrong. ",
)  # fmt: skip
CUES = (
    "", "", "ANSWER: ", "Answer: ", "**Answer:** ", "answer : ", "**ANSWER: ", "Final answer: ",
    "The answer is ", "the answer is: ", "The correct answer is ", "the correct answer is option ",
    "The correct option is ", "The final answer is ", "My final answer to this is ", "Therefore, ",
    "So the answer would be option ", "I choose ", "The answer to the question is ", "答案：", "答案是",  # noqa: E501 - one case a line
    "答案: ", "答案选项为 ", "答案应该是", "答案为 ", "故选", "选择", "所以", "因此", "显然", "只有选项",  # noqa: E501 - one case a line
    "说法不正确的是", "所以答案是", "Réponse : ", "Antwort: ", "The correct answer is: $\\boxed{",
    "Answer:\n", "\n", ": ", "1. ",
)  # fmt: skip
LABELS = (
    "@X", "@X", "@X", "(@X)", "**@X**", "[@X]", "@X.", "@X)", "@X: @T", "@X. @T", "(@X) @T", "$ @X $", "$@X$",  # noqa: E501 - one case a line
    "\\boxed{@X}", "@x", "(@x)", "@T", "**@X.** @T", "@X and @Y", "@X, @Y", "@X,", "@X or @Y", "`@X`",  # noqa: E501 - one case a line
    '"@X"', "@X@Y", "**(@X)**", "** @X **", "@X。", "@X，", "@X项", "@X 是正确的", "@X正确", "[LETTER]", "Z",  # noqa: E501 - one case a line
)  # fmt: skip
ENDINGS = (
    "", "", "", "", ".", "**", "\n", ".\n\nExplanation: A is too large.", " because B is wrong.",
    " is correct.", " I hope it is correct.", ". I hope it is correct.", "\n\nANSWER: @Y", ", not @Y",  # noqa: E501 - one case a line
    " 。", "}", "}$", " é", "\nAnswer: @y", "\n**@Y** was close.", " (see above)",
    " is the only one of these that is true for all of them, as far as I know",
)  # fmt: skip


def make_rows() -> list[dict[str, Any]]:
    """Make completions in which marks, cues, case, order and several letters meet at random."""
    drawn, rows = random.Random(17), []
    for _ in range(COUNT):
        size, text = drawn.choice((2, 4, 4, 4, 5, 10)), ""
        options = drawn.sample(OPTIONS, size)
        for _ in range(drawn.choice((1, 1, 2))):
            place, second = drawn.randrange(size), drawn.randrange(size)
            part = "".join(map(drawn.choice, (OPENINGS, CUES, LABELS, ENDINGS)))
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
            yield {
                "text": row["completion"] or "",
                "choices": row["choices"],
                "options": row["options"],
            }
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
                yield _letter(
                    row.get("generated_text") or row.get("model_outputs") or "", row["options"]
                )


def _letter(text: str, options: list[str]) -> dict[str, Any]:
    return {"text": text, "choices": LETTERS[: len(options)], "options": options}


def install(tool: str) -> Path:
    """Return the folder of a tool, which is installed the first time."""
    folder = TOOLS / PACKAGES[tool]
    if not folder.exists():
        draft = TOOLS / f"{PACKAGES[tool]}.draft"
        words = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--upgrade",
            "--target",
            str(draft),
        ]
        done = subprocess.run([*words, PACKAGES[tool]], check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{PACKAGES[tool]} cannot be installed: {done.stderr.strip()[-200:]}")
        draft.rename(folder)
    return folder


@pytest.mark.parametrize("tool", PACKAGES)
def test_an_extractor_reads_what_its_harness_reads(tool: str) -> None:
    """In at least 99.5 % of made and of real completions: the same choice, or none."""
    words = [
        sys.executable,
        "-I",
        "-W",
        "ignore",
        str(HERE / "tool_side.py"),
        str(install(tool)),
        tool,
    ]
    for rows in (make_rows(), read_rows()):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        done = subprocess.run(words, input=lines, check=True, capture_output=True, text=True)
        differ = []
        for row, line in zip(rows, done.stdout.splitlines(), strict=True):
            theirs, read = (
                json.loads(line),
                EXTRACTORS[tool].read(row["text"], row["choices"], row["options"]),
            )
            if read != (theirs if theirs in row["choices"] else None):
                differ.append(f"{theirs} there, {read} here: {row['text'][-200:]!r}")
        assert len(differ) <= len(rows) * 0.005, "\n".join(
            [f"{len(differ)} of {len(rows)}:", *differ[:20]]
        )
