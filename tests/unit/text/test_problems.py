"""Laws of errors and their messages: carets, near names, paths as given, arguments of Python."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.projects import write_rows, write_task

import answerkey as ak
from answerkey.errors import (
    CODES,
    DataError,
    Place,
    Problems,
    RunError,
    SolverError,
    SpecError,
    find_near,
    listing,
    raise_all,
    remember_secret,
    suggest,
)
from answerkey.importers.imports import import_log
from answerkey.spec import Options
from answerkey.text import (
    describe_problems,
    draw_problems,
    measure_width,
    name_arguments,
    plain_text,
    remember_paths,
)

Drawn = list[str]


def draw(path: Path, content: str, where: Place, code: str = "E102", message: str = "x") -> Drawn:
    """Return the lines below the place of an error in a file with this content."""
    path.write_bytes(content.encode(errors="surrogateescape"))
    error = SpecError(code, message, where=where)
    return plain_text(draw_problems([error], 60)).split("\n")[2:-1]


#: Each line of a file with the column of the mistake, how it is shown, and where the caret stands.
CARETS = [
    ("key: value", 6, "key: value", 5),
    ("\tkey: x", 1, "\\tkey: x", 0),
    ("a\tb: x", 3, "a\\tb: x", 3),
    ("日本: x", 3, "日本: x", 4),
    ("e\u0301: x", 3, "e\u0301: x", 1),
    ("a\u202e: x", 3, "a\\u202e: x", 7),
    ("key", 4, "key", 3),
]


def test_the_caret_is_below_the_mistake(tmp_path: Path) -> None:
    """Tabs and what is hidden are written out, wide characters take two cells, marks none."""
    path = tmp_path / "a.yaml"
    for line, column, shown, cells in CARETS:
        drawn = [f"    1 | {shown}", f"      | {' ' * cells}^"]
        assert draw(path, f"{line}\nmore\n", Place(str(path), 1, column)) == drawn
    assert draw(path, "key\nmore\n", Place(str(path), 1, 9)) == []


@pytest.mark.parametrize("column", [1, 40, 200, 399])
def test_a_long_line_is_cut_around_the_caret(tmp_path: Path, column: int) -> None:
    """No line is longer than the window, and the caret is below the right character."""
    path, text = tmp_path / "a.yaml", "".join(chr(0x4E00 + number) for number in range(400))
    source, caret = draw(path, text, Place(str(path), 1, column))
    before = source[: source.index(text[column - 1])]
    assert measure_width(before) == caret.index("^")
    assert measure_width(source) <= 60


def test_the_caret_finds_a_field_of_json(tmp_path: Path) -> None:
    """Below its value; not below the same word inside a text."""
    path = tmp_path / "rows.jsonl"
    row = '{"question": "what is \\"answer\\": 1?", "answer": 7}'
    source, caret = draw(path, f"{row}\n", Place(str(path), 1, field="answer"), "E204")
    assert source[caret.index("^")] == "7"
    assert draw(path, f"{row}\n", Place(str(path), 1, field="other"), "E204") == []


def test_the_caret_finds_a_name_in_a_template(tmp_path: Path) -> None:
    """Its place is where the template begins, or just its line."""
    path = tmp_path / "task.yaml"
    content = 'a: 1\ntruth: "{{ sample.awnser }}"\n'
    for place in (Place(str(path), 2, 8), Place(str(path), 2)):
        source, caret = draw(path, content, place, "E206", "`truth`: `awnser` is not a column")
        assert source[caret.index("^") :].startswith("awnser")


def test_no_secret_is_shown_in_its_line(tmp_path: Path) -> None:
    """Known ones, values of keys, passwords of URLs are masked.

    Where a value is hidden, so is its line.
    """
    path, env = tmp_path / "model.yaml", tmp_path / ".env"
    source, caret = draw(path, "api_key: sk-123456\n", Place(str(path), 1, 10))
    assert (source, caret) == ("    1 | api_key: ***", "      |          ^")
    assert "$KEY" in draw(path, "api_key: $KEY\n", Place(str(path), 1, 10))[0]
    shown = draw(path, "url: https://me:hunter2@h/v1\n", Place(str(path), 1, 6))
    assert "hunter2" not in str(shown)
    remember_secret("opensesame99")
    source, caret = draw(path, "a: opensesame99, b: c\n", Place(str(path), 1, 21))
    assert (source, caret) == ("    1 | a: ***, b: c", "      |    ^")
    for code, message in (("E117", "x"), ("E108", "`api_key` must be text, not ***")):
        assert draw(path, "header: abc\n", Place(str(path), 1, 1), code, message) == []
    assert draw(env, "KEY abc\n", Place(str(env), 1, 1)) == []


def test_a_line_that_cannot_be_had_is_left_out(tmp_path: Path) -> None:
    """A file that is gone, a line that is not there, bytes that are no text, a folder."""
    path = tmp_path / "a.yaml"
    for file, line in ((path, 5), (tmp_path / "b.yaml", 1), (tmp_path, 1)):
        assert draw(path, "a: 1\n", Place(str(file), line, 1)) == []
    assert draw(path, "a\0:\0", Place(str(path), 1, 1)) == []
    source, caret = draw(path, "\ufeffa: \udcff\n", Place(str(path), 1, 4))
    assert (source, caret) == ("    1 | a: \ufffd", "      |    ^")


#: What was written and the names there are, the near one marked.
NEAR = """\
awnser: question *answer
Answer: question *answer
groundTruthChoice: *ground_truth_choice choices
ground_truth: ground_truth_choice_field *ground_truth_choice
rnu: *run runs
f1: *f1_score mean
accuracy: *mean recall
accuracy: *is_correct brier
avg: max *mean
binary: *binary-classification
median: mean
nowhere: answer
shout: sort
label: question answer
: a
"""


@pytest.mark.parametrize("case", NEAR.splitlines())
def test_near_names_are_likely_slips(case: str) -> None:
    """Case and separators, a swapped or missing letter, the beginning, the usual word.

    Nothing else.
    """
    name, _, names = case.partition(": ")
    near = [word[1:] for word in names.split() if word.startswith("*")]
    assert find_near(name, names.replace("*", "").split()) == next(iter(near), None)


@pytest.mark.parametrize("form", ["{}", "./{}", "../here/{}", "{folder}/{}"])
def test_paths_are_shown_as_the_user_gave_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any], form: str
) -> None:
    """In the text and in `--json`, for a file that is named, and for one in a folder that is."""
    (folder := tmp_path / "here").mkdir()
    monkeypatch.chdir(folder)
    write_rows(Path("rows.jsonl"), [{"answer": "E", "completion": "A"}])
    task = write_task(Path("task.yaml"))
    path = form.format("rows.jsonl", folder=folder)
    done = call("score", task, "--dataset", path, "--json")
    assert f"  --> {path}:1, column `answer`\n" in done.err
    for refused in (done, call("check", task, f"--dataset={path}", "--json")):
        assert [error["file"] for error in refused.json["errors"]] == [path]
    remember_paths(["../here"])
    error = DataError("E204", "x", where=Place(str(folder / "rows.jsonl"), 1))
    assert describe_problems([error])["errors"][0]["file"] == "../here/rows.jsonl"  # type: ignore[index]  # a list
    remember_paths([])


def test_json_has_one_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any]
) -> None:
    """Whatever ends a command: a list under `errors`, each with the same keys."""
    monkeypatch.chdir(tmp_path)
    keys = {"code", "message", "file", "line", "column", "sample", "field", "hint"}
    for command in ("run x.yaml", "show none", "rnu", "run", "audit none", "init . --dataset none"):
        (error,) = call(*command.split(), "--json").json["errors"]
        assert set(error) == keys


def test_python_shows_the_same_with_its_own_names(tmp_path: Path) -> None:
    """An exception is drawn like an error of a command, and names arguments."""
    path = tmp_path / "task.yaml"
    path.write_text("key: {{ x }}\n")
    drawn = "    1 | key: {{ x }}\n      |      ^\n  = help: put it in quotes"
    with pytest.raises(SpecError, match=re.escape(drawn)):
        ak.load_task(path)
    with pytest.raises(SpecError, match='`allow_failed="many"` is neither') as caught:
        ak.score({}, [], allow_failed="many")
    assert 'write `allow_failed=5` or `allow_failed="2%"`' in str(caught.value)
    several = Problems([SpecError("E107", "a", where=Place("--config"))] * 60)
    assert str(several).startswith("error[E107]: a\n  --> config\n\n")
    assert str(several).endswith("and 10 more errors; `errors` of this exception has them all")


def list_spoken() -> set[str]:
    """Return every option in backticks that a message outside `cli` speaks of."""
    spoken: set[str] = set()
    for path in Path(ak.__file__).parent.rglob("*.py"):
        if path.parent.name not in {"cli", "viewer", "testing"} and path.name != "preview.py":
            spoken |= set(re.findall(r"`(--[a-z][a-z0-9_-]*)", path.read_text(encoding="utf-8")))
    return spoken


#: What only commands have, or other tools.
NOT_IN_PYTHON = """
--column --dry-run --header --json --log_samples --question --save-details --score --to
--truth-form --truth
"""
FUNCTIONS: list[Callable[..., object]]
FUNCTIONS = [ak.compare, ak.audit, ak.plan_comparison, ak.run, ak.rescore, ak.resume, import_log]


def test_every_option_in_a_message_is_an_argument_of_python() -> None:
    """What a message calls by its option has that name as an argument of a public function."""
    names = {field.name for field in fields(Options)} | set(NOT_IN_PYTHON.split())
    for function in FUNCTIONS:
        names |= set(inspect.signature(function).parameters)
    spoken = list_spoken()
    assert len(spoken) > 20
    arguments = {name_arguments(f"`{option}`").strip("`").partition("=")[0] for option in spoken}
    assert arguments <= names


@pytest.mark.parametrize(
    ("spoken", "argument"),
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
def test_options_become_arguments(spoken: str, argument: str) -> None:
    """Texts are quoted, switches have a value, what Python has not stays a command."""
    assert name_arguments(f"a {spoken} b") == f"a {argument} b"


# The errors themselves.

ERROR = DataError("E204", "what", where=Place("a.jsonl", 3, None, "s1", "answer"), hint="do this")


def test_an_error_says_what_happened_where_and_what_to_do() -> None:
    """The text has three lines: what, where, help."""
    assert str(ERROR) == "error[E204]: what\n  --> a.jsonl:3, column `answer`\n  = help: do this"


def test_a_place_without_a_file_names_the_sample() -> None:
    """Samples in memory have no file; their id is the place."""
    assert str(Place(sample="s1", field="answer")) == "sample `s1`, column `answer`"


def test_errors_travel_between_processes_unchanged() -> None:
    """An error pickles with its code, place and hint; several stay several."""
    again = pickle.loads(pickle.dumps(ERROR))  # noqa: S301 - our own bytes
    assert (type(again), str(again)) == (DataError, str(ERROR))
    several = pickle.loads(pickle.dumps(Problems([ERROR, SpecError("E107", "x")])))  # noqa: S301 - same
    assert [error.code for error in several.errors] == ["E204", "E107"]


def test_several_errors_are_shown_together_with_the_worst_exit_code() -> None:
    """Problems flatten, print all, and exit with the worst code."""
    outer = Problems([Problems([ERROR, SolverError("E301", "y")]), RunError("E501", "z")])
    assert [error.code for error in outer.errors] == ["E204", "E301", "E501"]
    assert outer.exit_code == 3
    assert str(outer).count("error[") == 3


def test_raise_all_raises_what_there_is() -> None:
    """Nothing for none, the error for one, Problems for several."""
    raise_all([])
    with pytest.raises(DataError):
        raise_all([ERROR])
    with pytest.raises(Problems):
        raise_all([ERROR, ERROR])


def test_codes_belong_to_their_family() -> None:
    """Every code is E and three digits."""
    assert all(len(code) == 4 and code[0] == "E" and code[1:].isdigit() for code in CODES)


@pytest.mark.parametrize(("name", "expected"), [("anser", "did you mean `answer`?"), ("xyz", None)])
def test_a_hint_names_the_nearest(name: str, expected: str | None) -> None:
    """Of what there is, or nothing when nothing is near."""
    assert suggest(name, ["answer", "question"]) == expected


@pytest.mark.parametrize(
    ("names", "expected"), [(["a", "b", "c"], "`a`, `b` and 1 more"), ([], "none")]
)
def test_a_hint_lists_what_there_is(names: list[str], expected: str) -> None:
    """A long list is cut, and says how many are left."""
    assert listing(names, limit=2) == expected
