"""Rows whose texts try to be more than text: equal at the model, byte for byte, and harmless where
shown.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from tests.browser.injections import INJECTIONS

from answerkey.cli import main
from answerkey.testing import Reply, TestServer

#: Code, formulas, escapes for a terminal, marks that turn or hide text, and what stays as it is.
KINDS: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "corpora" / "texts.json").read_text(encoding="utf-8")
)
FORMULAS, TERMINAL, TURNED = (KINDS[name] for name in ("formulas", "terminal", "turned"))
TEXTS = (*INJECTIONS, *(text for texts in KINDS.values() for text in texts))
#: What moves the cursor, ends a line early, hides or turns what follows; a line feed ends a line of
#: ours.
ACTIVE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
FORMULA = re.compile(r"^\s*[=@＝＠]|^\s*[+\-](?![\d.\s]|$)|[;\t\r\n][\s\"]*[=@＝＠]")
TASK = (Path(__file__).with_name("rows.yaml")).read_text(encoding="utf-8")
THRESHOLD = {"type": "threshold", "metric": "Accuracy", "operator": ">=", "threshold": 0.99}
RULE = {"key": "accurate", "display_name": "<i>\u202e\x1b[1m</i>", "definition": THRESHOLD}
Call = Callable[..., Any]
ROWS: list[dict[str, Any]] = [
    {
        "sample_id": f"row-{number} {text}" if number % 2 else f"row-{number}",
        "question": text,
        "category": TEXTS[number % 9],
        "choices": ["A", "B"],
        "answer": "AB"[number % 2],
        f"column {TEXTS[0]} {FORMULAS[0]}": TEXTS[(number + 1) % len(TEXTS)],
    }
    for number, text in enumerate(TEXTS)
]


def write_jsonl(path: Path, rows: Sequence[Mapping[str, object]] = ROWS) -> None:
    """Write rows as JSON lines, with as few escapes as JSON allows."""
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    path.write_bytes(text.encode())


def write_csv(path: Path) -> None:
    """Write the rows as CSV, lists as JSON in their cells."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(ROWS[0]), quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writeheader()
        writer.writerows({**row, "choices": json.dumps(row["choices"])} for row in ROWS)


FORMATS: dict[str, Callable[[Path], None]] = {
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": lambda path: pl.DataFrame(ROWS).write_parquet(path),
}


def answer(messages: Sequence[Mapping[str, object]]) -> Reply:
    """Say A, then a hostile text; by another way, think one."""
    question = str(messages[0]["content"])
    reply = TEXTS[(TEXTS.index(question) + 5) % len(TEXTS)]
    return Reply(f"A\n{reply}", kind="reasoning", reasoning=question)


@dataclass(frozen=True)
class Ran:
    """A run in a folder: what it printed, and what the model was asked."""

    folder: Path
    run: Path
    printed: str
    messages: Sequence[Sequence[Mapping[str, object]]]


def run_rows(folder: Path, form: str, call: Call) -> Ran:
    """Run the rows, written in one format, against a model that answers with such texts, too."""
    source = {"type": "local", "file_path": f"rows.{form}"}
    plan = {
        "datasets": [{"key": "rows", "display_name": TERMINAL[0], "source": source}],
        "tasks": [{"$ref": "task.yaml"}],
        "policies": [{"key": "gate", "rules": [RULE]}],
        "evaluation": {
            "key": "rows",
            "display_name": TURNED[0] + TEXTS[0],
            "task_specifications": [{"task_key": "rows"}],
        },
    }
    FORMATS[form](folder / f"rows.{form}")
    (folder / "task.yaml").write_text(TASK, encoding="utf-8")
    (folder / "run.yaml").write_text(json.dumps(plan), encoding="utf-8")
    run = folder / "run"
    gates = ("--junit", folder / "gates.xml", "--summary", folder / "summary.md")
    with TestServer(answer) as server:
        words = ("--model", f"{server.url}#model", "--cache-policy", "no-cache", *gates)
        done = call("run", folder, "--out", run, *words)
        assert done.code == 1, done.err  # its only gate cannot be met
        messages = [request.body["messages"] for request in server.asked.requests if request.body]
    return Ran(folder, run, done.out + done.err, messages)


def is_harmless(done: Any) -> bool:  # noqa: ANN401 - what a command left
    """Return whether what a command printed obeys no text, on either stream."""
    return ACTIVE.search(done.out + done.err) is None


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, call: Call) -> Ran:
    """Return the run of JSON lines."""
    return run_rows(tmp_path_factory.mktemp("rows"), "jsonl", call)


@pytest.mark.parametrize("form", FORMATS)
def test_texts_arrive_at_the_model_byte_for_byte(form: str, tmp_path: Path, call: Call) -> None:
    """From every format: alone in a message and inside one.

    What the run prints obeys none of them.
    """
    result = run_rows(tmp_path, form, call)
    texts = [[str(message["content"]).encode() for message in pair] for pair in result.messages]
    questions = [(row["question"], row["category"]) for row in ROWS]
    expected = [[text.encode(), f"Q: {text} ({kind})".encode()] for text, kind in questions]
    assert sorted(texts) == sorted(expected)
    assert ACTIVE.findall(result.printed) == []


#: RUN and FOLDER are those of the run, NOTHING is the id of no sample.
COMMANDS = (
    "show RUN",
    "show RUN -v",
    "show RUN --group-by category",
    "show RUN --format markdown --group-by category",
    "show RUN --json",
    "runs FOLDER",
    "runs FOLDER --json",
    "audit RUN",
    "audit RUN --json",
    "audit-dataset FOLDER/rows.jsonl",
    "compare RUN RUN",
    "check FOLDER",
    "check FOLDER --json",
    "run FOLDER --dry-run --model builtin/random",
    "explain RUN row-0",
    "explain RUN row-0 --json",
    "explain RUN NOTHING",
)


def list_markup(markdown: str) -> list[str]:
    """Return where elements begin in Markdown, but for the breaks that our tables have in their
    cells.
    """
    return re.findall(r"<(?!br>)[a-z/!]", markdown, re.IGNORECASE)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_printed_obeys_nothing(command: str, ran: Ran, call: Call) -> None:
    """Of no command: no escape, no control character, no mark that turns or hides text, on either
    stream.
    """
    names = {"RUN": str(ran.run), "NOTHING": TERMINAL[0] + TURNED[0]}
    words = [names.get(word, word) for word in command.split()]
    done = call(*(word.replace("FOLDER", str(ran.folder)) for word in words))
    assert done.code in {0, 1, 2}, done.err
    assert is_harmless(done)
    if "--json" in words:
        json.loads(done.out)
    if "markdown" in words:
        assert list_markup(done.out) == []


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_rows_on_a_terminal_obey_nothing(form: str, ran: Ran) -> None:
    """An export into a pipe is exact; on a terminal what it would obey is written out."""
    with redirect_stdout(Terminal()) as screen:
        assert main(["export", str(ran.run), "--to", form]) == 0
    assert len(screen.getvalue()) > 10_000
    assert ACTIVE.findall(screen.getvalue()) == []


def test_every_sample_is_explained_harmlessly(ran: Ran, call: Call) -> None:
    """Row, prompt, reasons and completion of each, for people and as JSON, where the texts are
    whole.
    """
    for row in ROWS if os.environ.get("ANSWERKEY_LONG") else ROWS[::8]:
        shown = call("explain", ran.run, row["sample_id"])
        assert shown.code == 0, shown.err
        assert is_harmless(shown)
        (sample,) = call("explain", ran.run, row["sample_id"], "--json").json["samples"]
        assert sample["sample"]["question"].encode() == row["question"].encode()
        assert sample["prompt"][0]["content"].encode() == row["question"].encode()


def test_bad_rows_are_reported_harmlessly(tmp_path: Path, call: Call) -> None:
    """Errors about rows quote them: ids, truths and choices; on a terminal and as JSON."""
    rows = [{**row, "answer": row["question"], "choices": ["A", row["question"]]} for row in ROWS]
    repeating = [{**row, "choices": [row["question"]] * 2} for row in rows[:15]]
    (tmp_path / "task.yaml").write_text(TASK, encoding="utf-8")
    for bad_rows in (rows, rows[:15], repeating):
        write_jsonl(tmp_path / "rows.jsonl", bad_rows)
        for option in ([], ["--json"], ["-v"]):
            words = ("--dataset", tmp_path / "rows.jsonl", *option)
            done = call("check", tmp_path / "task.yaml", *words)
            assert done.code == 2
            assert is_harmless(done)
            assert "has more than one" in done.out + done.err


def test_errors_of_an_endpoint_are_reported_harmlessly(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an endpoint says of its trouble is a text of a stranger, too."""
    monkeypatch.chdir(tmp_path)
    write_jsonl(Path("rows.jsonl"))
    Path("task.yaml").write_text(TASK, encoding="utf-8")
    body = json.dumps({"error": {"message": "".join(TERMINAL + TURNED)}}).encode()
    command = "run task.yaml --dataset rows.jsonl --num-samples 9 --out run --cache-policy no-cache"
    with TestServer(Reply(status=400, body=body)) as server:
        done = call(*command.split(), "--model", f"{server.url}#model")
    assert done.code == 3
    assert "HTTP 400" in done.out + done.err
    assert is_harmless(done)
    for options in ("", "--json", "-v", "--format markdown"):
        assert is_harmless(call("show", "run", *options.split()))


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file."""
    csv.field_size_limit(10_000_000)
    text = path.read_bytes().decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def test_no_cell_of_csv_is_a_formula(ran: Ran, call: Call) -> None:
    """In headings and cells; apart from the apostrophe before it, each text is unchanged."""
    file = ran.folder / "rows.csv"
    assert call("export", ran.run, "--to", "csv", "-o", file).code == 0
    rows = read_csv(file)
    cells = [cell for row in rows for cell in (*row, *row.values())]
    assert [cell for cell in cells if FORMULA.search(cell)] == []
    questions = [row["question"].replace("'", "") for row in rows]
    assert questions == [row["question"].replace("'", "") for row in ROWS]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_exports_for_programs_have_the_texts_byte_for_byte(form: str, ran: Ran, call: Call) -> None:
    """Raw CSV, JSON lines and Parquet hold questions and completions as they are."""
    file = ran.folder / f"exported.{form}"
    raw = ["--raw"] if form == "csv" else []
    assert call("export", ran.run, "--to", form, "-o", file, *raw).code == 0
    if form == "csv":
        rows = read_csv(file)
    elif form == "parquet":
        rows = pl.read_parquet(file).to_dicts()
    else:
        lines = file.read_bytes().decode().removesuffix("\n").split("\n")
        rows = [json.loads(line) for line in lines]
        rows = [{**row["sample"], **row} for row in rows]
    replies = [f"A\n{TEXTS[(number + 5) % len(TEXTS)]}".encode() for number in range(len(ROWS))]
    assert [row["completion"].encode() for row in rows] == replies
    questions = [row["question"].encode() for row in ROWS]
    assert [row["question"].encode() for row in rows] == questions


ADDRESSES = {"src", "href", "action", "srcdoc", "data", "style", "formaction"}


class Page(HTMLParser):
    """Gathers the elements of a page, and every attribute that could run or load something."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element."""
        self.elements.append(tag)
        for name, value in attrs:
            is_outside = name in ADDRESSES and not (value or "").startswith(("#", "data:"))
            if name.startswith("on") or is_outside:
                self.active.append(f"{tag} {name}={value}")


def parse_page(text: str) -> Page:
    """Return what a page is made of."""
    page = Page()
    page.feed(text)
    page.close()
    return page


def test_the_report_has_only_our_elements(ran: Ran, tmp_path: Path, call: Call) -> None:
    """The page of hostile rows has the elements of the page of a harmless run, in the same
    order.
    """
    assert call("init", tmp_path / "project").code == 0
    assert call("run", tmp_path / "project", "--out", tmp_path / "run").code == 0
    texts = []
    for run in (ran.run, tmp_path / "run"):
        assert call("report", run, "--out", tmp_path / "page.html").code == 0
        texts.append((tmp_path / "page.html").read_text(encoding="utf-8"))
    hostile, harmless = map(parse_page, texts)
    assert harmless.elements.count("script") >= 2
    shown, expected = (
        [element for element in page.elements if element != "script"]
        for page in (hostile, harmless)
    )
    assert shown == expected
    assert hostile.active == harmless.active
    assert [text for text in INJECTIONS if "<" in text and text in texts[0]] == []
    # The blocks of JSON are data, which the page makes visible when it shows it.
    page = re.sub(r'(?s)<script type="application/json".*?</script>', "", texts[0])
    assert set(ACTIVE.findall(page)) <= {"\t"}


def iterate_texts(element: ET.Element) -> Iterator[str]:
    """Yield every text of an XML document: contents and attributes."""
    for node in element.iter():
        yield node.text or ""
        yield from node.attrib.values()


def test_junit_and_the_job_summary_escape_texts(ran: Ran) -> None:
    """JUnit is well-formed XML with elements of its own alone.

    Markdown has no markup of a stranger.
    """
    root = ET.fromstring((ran.folder / "gates.xml").read_text(encoding="utf-8"))  # noqa: S314 - of our own making
    tags = {node.tag for node in root.iter()}
    assert tags == {"testsuites", "testsuite", "testcase", "failure"}
    assert any("<i>" in text for text in iterate_texts(root))
    assert [text for text in iterate_texts(root) if ACTIVE.search(text)] == []
    summary = (ran.folder / "summary.md").read_text(encoding="utf-8")
    assert ACTIVE.findall(summary) == []
    assert list_markup(summary) == []
