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
TASK = """\
key: rows
display_name: "<b>Rows</b>"
description: Every text of it tries to be more than text.
definition:
  dataset: {key: rows}
  solver:
    type: single_turn_solver
    input_builder:
      type: chat_completion
      input_messages:
        - {role: system, content: "{{ sample.question }}"}
        - {role: user, content: "Q: {{ sample.question }} ({{ sample.category }})"}
  scorers:
    - {type: string_equals_mcqa, ground_truth_choice: "{{ sample.answer }}", choices: "{{ sample.choices }}"}
"""  # noqa: E501 - the text as it is written
THRESHOLD = {"type": "threshold", "metric": "Accuracy", "operator": ">=", "threshold": 0.99}
RULE = {"key": "accurate", "display_name": "<i>\u202e\x1b[1m</i>", "definition": THRESHOLD}
POLICIES = [{"key": "gate", "rules": [RULE]}]
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


def write_jsonl(path: Path) -> None:
    """Write the rows as JSON lines, with as few escapes as JSON allows."""
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in ROWS)
    path.write_bytes(text.encode())


def write_csv(path: Path) -> None:
    """Write the rows as CSV, lists as JSON in their cells."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(ROWS[0]), quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writeheader()
        writer.writerows({**row, "choices": json.dumps(row["choices"])} for row in ROWS)


def write_parquet(path: Path) -> None:
    """Write the rows as Parquet."""
    pl.DataFrame(ROWS).write_parquet(path)


FORMATS: dict[str, Callable[[Path], None]] = {
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
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
    printed: str
    messages: Sequence[Sequence[Mapping[str, object]]]

    @property
    def run(self) -> Path:
        """The folder of the run itself."""
        return self.folder / "run"


def run_rows(folder: Path, form: str, call: Callable[..., Any]) -> Ran:
    """Run the rows, written in one format, against a model that answers with such texts, too."""
    FORMATS[form](folder / f"rows.{form}")
    (folder / "task.yaml").write_text(TASK, encoding="utf-8")
    source = {"type": "local", "file_path": f"rows.{form}"}
    plan = {
        "datasets": [{"key": "rows", "display_name": TERMINAL[0], "source": source}],
        "tasks": [{"$ref": "task.yaml"}],
        "policies": POLICIES,
        "evaluation": {
            "key": "rows",
            "display_name": TURNED[0] + MARKUP,
            "task_specifications": [{"task_key": "rows"}],
        },
    }
    (folder / "run.yaml").write_text(json.dumps(plan), encoding="utf-8")
    with TestServer(answer) as server:
        model = f"{server.url}#model"
        words = ("--model", model, "--out", folder / "run", "--junit", folder / "gates.xml")
        done = call(
            "run", folder, *words, "--summary", folder / "summary.md", "--cache-policy", "no-cache"
        )
        assert done.code == 1, done.err  # its only gate cannot be met
        messages = [request.body["messages"] for request in server.asked.requests if request.body]
    return Ran(folder, done.out + done.err, messages)


MARKUP = TEXTS[0]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, call: Callable[..., Any]) -> Ran:
    """Return the run of JSON lines."""
    return run_rows(tmp_path_factory.mktemp("rows"), "jsonl", call)


def list_asked(messages: Sequence[Sequence[Mapping[str, object]]]) -> list[tuple[bytes, bytes]]:
    """Return the two texts of every request, as bytes, in an order of their own."""
    return sorted(
        (str(message[0]["content"]).encode(), str(message[1]["content"]).encode())
        for message in messages
    )


@pytest.mark.parametrize("form", FORMATS)
def test_texts_arrive_at_the_model_byte_for_byte(
    form: str, tmp_path: Path, call: Callable[..., Any]
) -> None:
    """From every format: alone in a message and inside one.

    What the run prints obeys none of them.
    """
    result = run_rows(tmp_path, form, call)
    expected = [
        (row["question"].encode(), f"Q: {row['question']} ({row['category']})".encode())
        for row in ROWS
    ]
    assert list_asked(result.messages) == sorted(expected)
    assert ACTIVE.findall(result.printed) == []


WORDS: dict[str, tuple[str, ...]] = {
    "show": ("show", "{run}"),
    "show -v": ("show", "{run}", "-v"),
    "show by category": ("show", "{run}", "--group-by", "category"),
    "markdown": ("show", "{run}", "--format", "markdown", "--group-by", "category"),
    "runs": ("runs", "{folder}"),
    "audit": ("audit", "{run}"),
    "audit-dataset": ("audit-dataset", "{folder}/rows.jsonl"),
    "compare": ("compare", "{run}", "{run}"),
    "check": ("check", "{folder}"),
    "dry run": ("run", "{folder}", "--dry-run", "--model", "builtin/random"),
    "explain": ("explain", "{run}", "row-0"),
    "explain nothing": ("explain", "{run}", TERMINAL[0] + TURNED[0]),
    "show json": ("show", "{run}", "--json"),
    "explain json": ("explain", "{run}", "row-0", "--json"),
    "check json": ("check", "{folder}", "--json"),
    "audit json": ("audit", "{run}", "--json"),
    "runs json": ("runs", "{folder}", "--json"),
}


def list_markup(markdown: str) -> list[str]:
    """Return where elements begin in Markdown, but for the breaks that our tables have in their
    cells.
    """
    return re.findall(r"<(?!br>)[a-z/!]", markdown, re.IGNORECASE)


@pytest.mark.parametrize("name", WORDS)
def test_what_is_printed_obeys_nothing(name: str, ran: Ran, call: Callable[..., Any]) -> None:
    """Of no command: no escape, no control character, no mark that turns or hides text, on either
    stream.
    """
    words = [
        word.replace("{run}", str(ran.run)).replace("{folder}", str(ran.folder))
        for word in WORDS[name]
    ]
    done = call(*words)
    assert done.code in {0, 1, 2}, done.err
    assert ACTIVE.findall(done.out + done.err) == []
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


def test_every_sample_is_explained_harmlessly(ran: Ran, call: Callable[..., Any]) -> None:
    """Row, prompt, reasons and completion of each, for people and as JSON, where the texts are
    whole.
    """
    for row in ROWS if os.environ.get("ANSWERKEY_LONG") else ROWS[::8]:
        shown = call("explain", ran.run, row["sample_id"])
        assert shown.code == 0, shown.err
        assert ACTIVE.findall(shown.out + shown.err) == []
        (sample,) = call("explain", ran.run, row["sample_id"], "--json").json["samples"]
        assert sample["sample"]["question"].encode() == row["question"].encode()
        assert sample["prompt"][0]["content"].encode() == row["question"].encode()


def test_bad_rows_are_reported_harmlessly(tmp_path: Path, call: Callable[..., Any]) -> None:
    """Errors about rows quote them: ids, truths and choices; on a terminal and as JSON."""
    rows = [{**row, "answer": row["question"], "choices": ["A", row["question"]]} for row in ROWS]
    twice = [{**row, "choices": [row["question"]] * 2} for row in rows[:15]]
    (tmp_path / "task.yaml").write_text(TASK, encoding="utf-8")
    for number, some in enumerate([rows, rows[:15], twice]):
        path = tmp_path / f"{number}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in some), encoding="utf-8")
        for more in ((), ("--json",), ("-v",)):
            done = call("check", tmp_path / "task.yaml", "--dataset", path, *more)
            assert done.code == 2
            assert ACTIVE.findall(done.out + done.err) == []
            assert "has more than one" in done.out + done.err


def test_errors_of_an_endpoint_are_reported_harmlessly(
    tmp_path: Path, call: Callable[..., Any]
) -> None:
    """What an endpoint says of its trouble is a text of a stranger, too."""
    write_jsonl(tmp_path / "rows.jsonl")
    (tmp_path / "task.yaml").write_text(TASK, encoding="utf-8")
    body = json.dumps({"error": {"message": "".join(TERMINAL + TURNED)}}).encode()
    with TestServer(Reply(status=400, body=body)) as server:
        words = (
            "--dataset",
            tmp_path / "rows.jsonl",
            "--model",
            f"{server.url}#model",
            "--num-samples",
            9,
        )
        done = call(
            "run",
            tmp_path / "task.yaml",
            *words,
            "--out",
            tmp_path / "run",
            "--cache-policy",
            "no-cache",
        )
    assert done.code == 3
    assert "HTTP 400" in done.out + done.err
    assert ACTIVE.findall(done.out + done.err) == []
    for more in ((), ("--json",), ("-v",), ("--format", "markdown")):
        shown = call("show", tmp_path / "run", *more)
        assert ACTIVE.findall(shown.out + shown.err) == []


def read_cells(text: str) -> list[list[str]]:
    """Return the cells of CSV, line by line."""
    csv.field_size_limit(10_000_000)
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def test_no_cell_of_csv_is_a_formula(ran: Ran, call: Callable[..., Any]) -> None:
    """In headings and cells; but for the apostrophe before it, each text is as it was."""
    assert call("export", ran.run, "--to", "csv", "-o", ran.folder / "rows.csv").code == 0
    heading, *lines = read_cells((ran.folder / "rows.csv").read_bytes().decode())
    assert [cell for line in (heading, *lines) for cell in line if FORMULA.search(cell)] == []
    at = heading.index("question")
    assert [line[at].replace("'", "") for line in lines] == [
        row["question"].replace("'", "") for row in ROWS
    ]


def test_raw_csv_jsonl_and_parquet_have_the_texts_byte_for_byte(
    ran: Ran, call: Callable[..., Any]
) -> None:
    """Files for programs hold questions and completions as they are."""
    replies = [f"A\n{TEXTS[(number + 5) % len(TEXTS)]}" for number in range(len(ROWS))]
    questions = [row["question"] for row in ROWS]
    for form, more in {"csv": ["--raw"], "jsonl": [], "parquet": []}.items():
        assert (
            call("export", ran.run, "--to", form, "-o", ran.folder / f"out.{form}", *more).code == 0
        )
    heading, *lines = read_cells((ran.folder / "out.csv").read_bytes().decode())
    for name, texts in {"question": questions, "completion": replies}.items():
        assert [line[heading.index(name)].encode() for line in lines] == [
            text.encode() for text in texts
        ]
    rows = [
        json.loads(line)
        for line in (ran.folder / "out.jsonl").read_bytes().decode().split("\n")
        if line
    ]
    assert [row["sample"]["question"].encode() for row in rows] == [
        text.encode() for text in questions
    ]
    assert [row["completion"].encode() for row in rows] == [text.encode() for text in replies]
    table = pl.read_parquet(ran.folder / "out.parquet")
    assert table["completion"].to_list() == replies


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
            is_address = name in {"src", "href", "action", "srcdoc", "data", "style", "formaction"}
            if name.startswith("on") or (
                is_address and not (value or "").startswith(("#", "data:"))
            ):
                self.active.append(f"{tag} {name}={value}")


def test_the_report_has_only_our_elements(
    ran: Ran, tmp_path: Path, call: Callable[..., Any]
) -> None:
    """The page of hostile rows has the elements of the page of a harmless run, in the same
    order.
    """
    assert call("report", ran.run, "--out", ran.folder / "hostile.html").code == 0
    project = tmp_path / "project"
    assert call("init", project).code == 0
    assert call("run", project, "--out", tmp_path / "run").code == 0
    assert call("report", tmp_path / "run", "--out", tmp_path / "harmless.html").code == 0
    pages = [ran.folder / "hostile.html", tmp_path / "harmless.html"]
    hostile, harmless = (parse_page(path) for path in pages)
    assert harmless.elements.count("script") >= 2
    assert [element for element in hostile.elements if element != "script"] == [
        element for element in harmless.elements if element != "script"
    ]
    assert hostile.active == harmless.active
    text = pages[0].read_text(encoding="utf-8")
    assert [injection for injection in INJECTIONS if "<" in injection and injection in text] == []
    # The blocks of JSON are data, which the page makes visible when it shows it.
    assert set(
        ACTIVE.findall(re.sub(r'(?s)<script type="application/json".*?</script>', "", text))
    ) <= {"\t"}


def parse_page(path: Path) -> Page:
    """Return what a page is made of."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    page.close()
    return page


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
    assert {node.tag for node in root.iter()} == {
        "testsuites", "testsuite", "testcase", "failure",
    }  # fmt: skip
    assert any("<i>" in text for text in iterate_texts(root))
    assert [text for text in iterate_texts(root) if ACTIVE.search(text)] == []
    summary = (ran.folder / "summary.md").read_text(encoding="utf-8")
    assert ACTIVE.findall(summary) == []
    assert list_markup(summary) == []
