from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.errors import SpecError
from answerkey.spec.nodes import BROKEN, Problems, ScalarNode, to_plain
from answerkey.spec.project import Environment, Inclusion

from .conftest import Write


def load(folder: Path, name: str = "a.yaml", *, allow_outside: bool = False) -> tuple[object, Problems]:
    """Return the plain tree of a file with everything followed, and what was found."""
    problems = Problems()
    environment = Environment({"PART": "part"})
    inclusion = Inclusion(folder, environment, problems, allow_outside=allow_outside)
    return to_plain(inclusion.load(folder / name, name)), problems


def test_include_is_the_stripped_text_of_a_file(write: Write) -> None:
    """`!include` puts the text of a file in place, stripped at both ends, relative to the including file."""
    folder = write(
        a_yaml="x: {$ref: sub/b.yaml}\n", sub__b_yaml="t: !include c.md\n", sub__c_md="\n one: two \n\n"
    )
    found, problems = load(folder)
    assert found == {"x": {"t": "one: two"}}
    assert problems.errors == []


def test_ref_puts_a_file_in_place_of_the_node(write: Write) -> None:
    """`$ref` alone is replaced by whatever the file holds: a mapping, a list or a scalar."""
    folder = write(a_yaml="m: {$ref: m.yaml}\nl: [{$ref: l.yaml}]\n", m_yaml="{k: 1}", l_yaml="[1, 2]")
    assert load(folder)[0] == {"m": {"k": 1}, "l": [[1, 2]]}


def test_ref_joins_its_siblings(write: Write) -> None:
    """Keys beside `$ref` are added to the mapping of the file; the same value twice is no contradiction."""
    folder = write(a_yaml="m: {$ref: m.yaml, extra: 2, k: 1}\n", m_yaml="{k: 1}")
    found, problems = load(folder)
    assert found == {"m": {"k": 1, "extra": 2}}
    assert problems.errors == []


def test_a_sibling_that_contradicts_is_an_error(write: Write) -> None:
    """A key beside `$ref` with another value than the file's is an error that names both places."""
    folder = write(a_yaml="m:\n  $ref: m.yaml\n  k: 2\n", m_yaml="k: 1\n")
    _, problems = load(folder)
    assert [error.code for error in problems.errors] == ["E105"]
    assert problems.errors[0].message.startswith("`k` contradicts the file that `$ref` names (")
    assert str(problems.errors[0].where) == "a.yaml:3:3"


def test_siblings_need_a_mapping(write: Write) -> None:
    """`$ref` with keys beside it to a file that holds a list is an error."""
    folder = write(a_yaml="m: {$ref: l.yaml, k: 2}\n", l_yaml="[1]\n")
    assert [error.code for error in load(folder)[1].errors] == ["E105"]


def test_a_circle_is_an_error(write: Write) -> None:
    """Files that refer to each other in a circle are an error that shows the circle."""
    folder = write(a_yaml="x: {$ref: b.yaml}\n", b_yaml="y: {$ref: a.yaml}\n")
    _, problems = load(folder)
    assert problems.errors[0].code == "E105"
    assert problems.errors[0].message == "`$ref` goes in a circle: `a.yaml` → `b.yaml` → `a.yaml`"


def test_the_same_file_twice_is_no_circle(write: Write) -> None:
    """Two references to one file are fine."""
    folder = write(a_yaml="x: {$ref: b.yaml}\ny: {$ref: b.yaml}\n", b_yaml="1\n")
    assert load(folder) == ({"x": 1, "y": 1}, Problems())


@pytest.mark.parametrize("text", ["x: {$ref: ../b.yaml}\n", "x: !include ../b.yaml\n"])
def test_the_project_folder_is_the_limit(write: Write, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither `$ref` nor `!include` may leave the project folder, unless that is allowed."""
    monkeypatch.chdir(write(sub__a_yaml=text, b_yaml="secret\n") / "sub")
    _, problems = load(Path())
    assert [error.code for error in problems.errors] == ["E105"]
    assert "--allow-outside" in str(problems.errors[0].hint)
    assert load(Path(), allow_outside=True) == ({"x": "secret"}, Problems())


def test_a_link_that_leaves_the_folder_is_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real path counts, not the name of a symbolic link."""
    folder = write(sub__a_yaml="x: {$ref: link.yaml}\n", b_yaml="secret\n")
    (folder / "sub" / "link.yaml").symlink_to(folder / "b.yaml")
    monkeypatch.chdir(folder / "sub")
    assert [error.code for error in load(Path())[1].errors] == ["E105"]


def test_what_cannot_be_read_is_reported_where_it_is_named(write: Write) -> None:
    """A missing file is an error at the node that names it, and the rest is read."""
    folder = write(a_yaml="x: {$ref: none.yaml}\ny: !include none.md\nz: 1\n")
    found, problems = load(folder)
    assert [(error.code, str(error.where)) for error in problems.errors] == [
        ("E101", "a.yaml:1:11"),
        ("E101", "a.yaml:2:4"),
    ]
    assert found == {"x": BROKEN, "y": BROKEN, "z": 1}


def test_paths_may_hold_environment_values(write: Write) -> None:
    """The path of `$ref` is a mapping value like any other."""
    folder = write(a_yaml="x: {$ref: $PART/b.yaml}\n", part__b_yaml="1\n")
    assert load(folder)[0] == {"x": 1}


def test_rows_are_left_alone(write: Write) -> None:
    """A column called `$ref` in inline rows is a column."""
    folder = write(a_yaml="source: {type: inline, rows: [{$ref: x}]}\n")
    assert load(folder)[0] == {"source": {"type": "inline", "rows": [{"$ref": "x"}]}}


def test_include_is_followed_in_rows(write: Write) -> None:
    """A tag is no material: the text of the file is the cell, whatever it looks like."""
    folder = write(a_yaml="rows: [{q: !include q.md, r: {s: [!include q.md]}}]\n", q_md=" $HOME {{ x }}\n")
    assert load(folder)[0] == {"rows": [{"q": "$HOME {{ x }}", "r": {"s": ["$HOME {{ x }}"]}}]}


def test_rows_may_stand_in_a_file_of_their_own(write: Write) -> None:
    """`rows: {$ref: path}` is the file; inside it a column called `$ref` is a column."""
    folder = write(a_yaml="rows: {$ref: r.yaml}\n", r_yaml="[{$ref: x, q: !include q.md}]\n", q_md="Q\n")
    found, problems = load(folder)
    assert found == {"rows": [{"$ref": "x", "q": "Q"}]}
    assert problems.errors == []


@pytest.mark.parametrize(
    ("text", "line", "place"),
    [
        ("one\ntwo\n", 1, "a.md:1:1"),
        ("one\ntwo\n", 2, "a.md:2"),
        ("\n\n  one\ntwo", 1, "a.md:3:3"),
        ("\n\n  one\ntwo", 2, "a.md:4"),
        (" \t\r\n one", 1, "a.md:2:2"),
    ],
)
def test_a_line_of_an_included_text_is_a_line_of_its_file(
    write: Write, text: str, line: int, place: str
) -> None:
    """What is stripped at the front counts."""
    folder = write(a_yaml="!include a.md\n", a_md=text)
    inclusion = Inclusion(folder, Environment(), Problems())
    node = inclusion.load(folder / "a.yaml", "a.yaml")
    assert isinstance(node, ScalarNode)
    assert str(node.place_of_line(line)) == place


def test_a_column_of_an_included_text_is_a_column_of_its_file(write: Write) -> None:
    """On the first line the stripped characters count."""
    folder = write(a_yaml="!include a.md\n", a_md="\n  one\ntwo")
    node = Inclusion(folder, Environment(), Problems()).load(folder / "a.yaml", "a.yaml")
    assert isinstance(node, ScalarNode)
    assert [str(node.place_of_line(line, 3)) for line in (1, 2)] == ["a.md:2:5", "a.md:3:3"]


def test_places_are_those_of_the_named_file(write: Write) -> None:
    """A node of another file says so."""
    folder = write(a_yaml="x: {$ref: b.yaml}\n", b_yaml="\ny: 1\n")
    root = Inclusion(folder, Environment(), Problems()).load(Path("a.yaml"), "a.yaml")
    assert str(root.at("x", "y").place) == "b.yaml:2:4"


def test_the_first_file_must_be_there(write: Write) -> None:
    """The file the caller names is read, or nothing is."""
    with pytest.raises(SpecError, match="does not exist"):
        load(write(), "none.yaml")
