"""Laws of error messages: the line with its caret, near names, paths as given, arguments of
Python.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.errors import DataError, Place, Problems, SpecError, find_near, remember_secret
from answerkey.importers.imports import import_log
from answerkey.spec import Options
from answerkey.text import (
    describe_problems,
    draw_problems,
    name_arguments,
    plain_text,
    remember_paths,
)

SOURCES = Path(ak.__file__).parent


def draw(
    path: Path, content: str | bytes, where: Place, *, message: str = "x", code: str = "E102"
) -> list[str]:
    """Return the lines below the place of an error in a file with this content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    error = SpecError(code, message, where=where)
    return plain_text(draw_problems([error], 60)).split("\n")[2:-1]


@pytest.mark.parametrize(
    ("line", "column", "drawn"),
    [
        ("key: value", 6, ["    1 | key: value", "      |      ^"]),
        ("\tkey: x", 1, ["    1 | \\tkey: x", "      | ^"]),
        ("a\tb: x", 3, ["    1 | a\\tb: x", "      |    ^"]),
        ("日本: x", 3, ["    1 | 日本: x", "      |     ^"]),
        ("e\u0301: x", 3, ["    1 | e\u0301: x", "      |  ^"]),
        ("a\u202e: x", 3, ["    1 | a\\u202e: x", "      |        ^"]),
        ("key", 4, ["    1 | key", "      |    ^"]),
        ("key", 9, []),
    ],
)
def test_the_caret_stands_below_the_mistake(
    tmp_path: Path, line: str, column: int, drawn: list[str]
) -> None:
    """Tabs and what is hidden are written out, wide characters take two cells, marks none."""
    path = tmp_path / "a.yaml"
    assert draw(path, f"{line}\nmore\n", Place(str(path), 1, column)) == drawn


@pytest.mark.parametrize("column", [1, 40, 200, 399])
def test_a_long_line_is_cut_around_the_caret(tmp_path: Path, column: int) -> None:
    """No line is longer than the window, and the caret is below the right character."""
    path, text = tmp_path / "a.yaml", "".join(chr(0x4E00 + number) for number in range(400))
    source, caret = draw(path, text, Place(str(path), 1, column))
    before = re.sub(
        ".",
        lambda one: "  " if ord(one[0]) > 0x3000 else " ",
        source[: source.index(text[column - 1])],
    )
    assert before.replace("|", " ") == caret.replace("|", " ").partition("^")[0]
    assert sum(2 if ord(one) > 0x3000 else 1 for one in source) <= 60


def test_the_caret_finds_a_field_of_json(tmp_path: Path) -> None:
    """Below its value; not below the same word inside a text."""
    path = tmp_path / "rows.jsonl"
    row = '{"question": "what is \\"answer\\": 1?", "answer": 7}'
    source, caret = draw(path, f"{row}\n", Place(str(path), 1, field="answer"), code="E204")
    assert source[caret.index("^")] == "7"
    assert draw(path, f"{row}\n", Place(str(path), 1, field="other"), code="E204") == []


def test_the_caret_finds_a_name_in_a_template(tmp_path: Path) -> None:
    """Its place is where the template begins, or just its line."""
    path = tmp_path / "task.yaml"
    for place in (Place(str(path), 2, 8), Place(str(path), 2)):
        message = "`truth`: `awnser` is not a column"
        source, caret = draw(
            path, 'a: 1\ntruth: "{{ sample.awnser }}"\n', place, message=message, code="E206"
        )
        assert source[caret.index("^") :].startswith("awnser")


def test_no_secret_is_shown_in_its_line(tmp_path: Path) -> None:
    """Known ones, values of keys, passwords of URLs are masked.

    Where a value is hidden, so is its line.
    """
    path = tmp_path / "model.yaml"
    assert draw(path, "api_key: sk-123456\n", Place(str(path), 1, 10)) == [
        "    1 | api_key: ***",
        "      |          ^",
    ]
    assert "$KEY" in draw(path, "api_key: $KEY\n", Place(str(path), 1, 10))[0]
    assert "hunter2" not in str(
        draw(path, "url: https://me:hunter2@h/v1\n", Place(str(path), 1, 6))
    )
    remember_secret("opensesame99")
    source, caret = draw(path, "a: opensesame99, b: c\n", Place(str(path), 1, 21))
    assert (source, caret) == ("    1 | a: ***, b: c", "      |    ^")
    for code, message in (("E117", "x"), ("E108", "`api_key` must be text, not ***")):
        assert draw(path, "header: abc\n", Place(str(path), 1, 1), message=message, code=code) == []
    assert draw(tmp_path / ".env", "KEY abc\n", Place(str(tmp_path / ".env"), 1, 1)) == []


def test_a_line_that_cannot_be_had_is_left_out(tmp_path: Path) -> None:
    """A file that is gone, a line that is not there, bytes that are no text, a folder."""
    path = tmp_path / "a.yaml"
    assert draw(path, "a: 1\n", Place(str(path), 5, 1)) == []
    assert draw(path, "a: 1\n".encode("utf-16"), Place(str(path), 1, 1)) == []
    assert draw(path, "a: 1\n", Place(str(tmp_path / "b.yaml"), 1, 1)) == []
    assert draw(path, "a: 1\n", Place(str(tmp_path), 1, 1)) == []
    assert draw(path, b"\xef\xbb\xbfa: \xff\n", Place(str(path), 1, 4)) == [
        "    1 | a: \ufffd",
        "      |    ^",
    ]


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("awnser", ["question", "answer"], "answer"),
        ("Answer", ["question", "answer"], "answer"),
        ("groundTruthChoice", ["ground_truth_choice", "choices"], "ground_truth_choice"),
        (
            "ground_truth",
            ["ground_truth_choice_field", "ground_truth_choice"],
            "ground_truth_choice",
        ),
        ("rnu", ["run", "runs"], "run"),
        ("f1", ["f1_score", "mean"], "f1_score"),
        ("accuracy", ["mean", "recall"], "mean"),
        ("accuracy", ["is_correct", "brier"], "is_correct"),
        ("avg", ["max", "mean"], "mean"),
        ("binary", ["binary-classification"], "binary-classification"),
        ("median", ["mean"], None),
        ("nowhere", ["answer"], None),
        ("shout", ["sort"], None),
        ("label", ["question", "answer"], None),
        ("", ["a"], None),
    ],
)
def test_near_is_what_a_slip_may_have_made(name: str, known: list[str], near: str | None) -> None:
    """Case and separators, a swapped or missing letter, the beginning, the usual word.

    Nothing else.
    """
    assert find_near(name, known) == ([near] if near else [])


@pytest.mark.parametrize(
    "given", ["rows.jsonl", "./rows.jsonl", "../here/rows.jsonl", "{folder}/rows.jsonl"]
)
def test_paths_are_those_that_the_user_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any], given: str
) -> None:
    """In the text and in `--json`, for a file that is named, and for one in a folder that is."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("rows.jsonl").write_text('{"answer": "E", "completion": "A"}\n')
    scorer = (
        "{type: string_equals_mcqa, ground_truth_choice: '{{ sample.answer }}', choices: [A, B]}"
    )
    Path("task.yaml").write_text(
        f"key: t\ndisplay_name: T\ndescription: D\ndefinition: {{scorers: [{scorer}]}}\n"
    )
    path = given.format(folder=folder)
    done = call("score", "task.yaml", "--dataset", path, "--json")
    assert [one["file"] for one in done.json["errors"]] == [path]
    assert f"  --> {path}:1, column `answer`\n" in done.err
    checked = call("check", "task.yaml", f"--dataset={path}", "--json")
    assert [one["file"] for one in checked.json["errors"]] == [path]
    remember_paths(["../here"])
    error = DataError("E204", "x", where=Place(str(folder / "rows.jsonl"), 1))
    assert describe_problems([error])["errors"][0]["file"] == "../here/rows.jsonl"  # type: ignore[index]  # a list
    remember_paths([])


@pytest.mark.parametrize(
    "words", ["run x.yaml", "show none", "rnu", "run", "audit none", "init . --dataset none"]
)
def test_json_has_one_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any], words: str
) -> None:
    """Whatever ends a command: a list under `errors`, each with the same keys."""
    monkeypatch.chdir(tmp_path)
    told = call(*words.split(), "--json").json
    keys = {"code", "message", "file", "line", "column", "sample", "field", "hint"}
    assert [set(one) for one in told["errors"]] == [keys]


def test_python_shows_the_same_with_its_own_names(tmp_path: Path) -> None:
    """An exception is drawn like an error of a command, and names arguments."""
    path = tmp_path / "task.yaml"
    path.write_text("key: {{ x }}\n")
    with pytest.raises(
        SpecError, match=r"1 \| key: \{\{ x \}\}\n      \|      \^\n  = help: put it in quotes"
    ):
        ak.load_task(path)
    with pytest.raises(SpecError, match='`allow_failed="many"` is neither') as caught:
        ak.score({}, [], allow_failed="many")
    assert 'write `allow_failed=5` or `allow_failed="2%"`' in str(caught.value)
    several = Problems([SpecError("E107", "a", where=Place("--config"))] * 60)
    assert str(several).startswith("error[E107]: a\n  --> config\n\n")
    assert str(several).endswith("and 10 more errors; `errors` of this exception has them all")


def list_spoken() -> list[str]:
    """Return every option in backticks that a message outside `cli` speaks of."""
    spoken: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        if path.parent.name in {"cli", "viewer", "testing"} or path.name == "preview.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                spoken |= set(re.findall(r"`(--[a-z][a-z0-9_-]*)", node.value))
    return sorted(spoken)


#: What only commands have, or other tools.
NOT_IN_PYTHON = {
    "--column",
    "--dry-run",
    "--header",
    "--json",
    "--log_samples",
    "--question",
    "--save-details",
    "--score",
}
NOT_IN_PYTHON |= {"--to", "--truth-form", "--truth"}


def test_every_option_in_a_message_is_an_argument_of_python() -> None:
    """What a message calls by its option has that name as an argument of a public function."""
    functions: list[Callable[..., object]] = [
        ak.compare,
        ak.audit,
        ak.plan_comparison,
        ak.run,
        ak.rescore,
        ak.resume,
        import_log,
    ]
    known = {name for function in functions for name in inspect.signature(function).parameters}
    known |= {field.name for field in fields(Options)}
    named = {one: name_arguments(f"`{one}`").strip("`").partition("=")[0] for one in list_spoken()}
    assert len(named) > 20
    unknown = {one: name for one, name in named.items() if name not in known}
    assert {
        one: name for one, name in unknown.items() if one not in NOT_IN_PYTHON or name != one
    } == {}


@pytest.mark.parametrize(
    ("spoken", "named"),
    [
        ("`--allow-failed 1`", "`allow_failed=1`"),
        ("`--price 0.15:0.60`", '`price="0.15:0.60"`'),
        ("`--completions FILE`", '`completions="FILE"`'),
        ("`--model 'http://h/v1?x=1#n'`", '`model="http://h/v1?x=1#n"`'),
        ("`--trust-code`", "`trust_code=True`"),
        ("`--no-batch`", "`batch=False`"),
        ("`--allow-host h`", '`allow_hosts=("h",)`'),
        ("`--config k=…`", '`config={"k": …}`'),
        ("`--out`", "`out=…`"),
        ("`answerkey resume RUN`", "`ak.resume(RUN)`"),
        ("`answerkey init`", "`answerkey init`"),
        ("`pip install --upgrade x`", "`pip install --upgrade x`"),
    ],
)
def test_options_become_arguments(spoken: str, named: str) -> None:
    """Texts are quoted, switches have a value, what Python has not stays a command."""
    assert name_arguments(f"a {spoken} b") == f"a {named} b"
