from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.errors import Place, SpecError
from answerkey.spec.project import Environment, load_environment, parse_env


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$V", "one"),
        ("${V}", "one"),
        ("$V/x", "one/x"),
        ("${V}x$W", "onextwo"),
        ("$V and more", "$V and more"),
        ("x$V", "x$V"),
        ("$", "$"),
        ("$5", "$5"),
        ("openai$gpt", "openai$gpt"),
        ("${V", "${V"),
    ],
)
def test_a_value_that_begins_with_a_name_is_expanded(text: str, expanded: str) -> None:
    """`$V`, `${V}` and `$V/x` are filled in; text with white space, or a `$` further on, stays."""
    assert Environment({"V": "one", "W": "two"}).expand(text, Place()) == expanded


def test_an_unset_name_is_an_error() -> None:
    """A name that is not set is an error with a hint."""
    with pytest.raises(SpecError) as caught:
        Environment({"PATHS": "x"}).expand("$PATH_S", Place("run.yaml", 3, 4))
    assert caught.value.code == "E106"
    assert str(caught.value.where) == "run.yaml:3:4"
    assert caught.value.hint == "did you mean `PATHS`? or set it in the environment or in `.env`: `PATH_S=…`"


def test_an_env_file_is_parsed() -> None:
    """Names, `export`, quotes, escapes and comments are read; nothing is expanded."""
    text = 'A=1\n# note\n\nexport B = two words # note\nC=\'a # $A\'\nD="x\\ny\\"" # z\nE=\nF=a#b\n'
    assert parse_env(text, ".env") == {
        "A": "1",
        "B": "two words",
        "C": "a # $A",
        "D": 'x\ny"',
        "E": "",
        "F": "a#b",
    }


@pytest.mark.parametrize("line", ["no equals sign", "1A=x", "A='open", 'A="x" y'])
def test_a_bad_line_names_its_number(line: str) -> None:
    """A line of another form is an error with its number."""
    with pytest.raises(SpecError) as caught:
        parse_env(f"A=1\n{line}\n", ".env")
    assert (caught.value.code, str(caught.value.where)) == ("E102", ".env:2")


def test_the_process_environment_wins(tmp_path: Path) -> None:
    """`.env` beside the file fills what the process environment leaves open."""
    (tmp_path / ".env").write_text("A=file\nB=file\n")
    found = load_environment(tmp_path, None, {"A": "process"})
    assert found.values == {"A": "process", "B": "file"}


def test_a_named_file_replaces_the_one_beside(tmp_path: Path) -> None:
    """`--env FILE` is read instead of `.env`, and must be there."""
    (tmp_path / ".env").write_text("A=beside\n")
    (tmp_path / "other").write_text("B=named\n")
    assert load_environment(tmp_path, tmp_path / "other", {}).values == {"B": "named"}
    with pytest.raises(SpecError) as caught:
        load_environment(tmp_path, tmp_path / "none", {})
    assert caught.value.code == "E101"


def test_values_do_not_show() -> None:
    """The environment does not print its values."""
    assert "one" not in repr(Environment({"V": "one"}))
