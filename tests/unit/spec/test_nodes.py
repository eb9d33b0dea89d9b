"""Laws of YAML files: what is a value, where it stands, what is refused.

Other files; environment values.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.errors import Place, SpecError
from answerkey.spec import nodes
from answerkey.spec.nodes import Node, ProblemList, parse_yaml, read_yaml, to_plain
from answerkey.spec.project import Environment, Inclusion, load_environment, parse_env

from .conftest import Write, list_errors

WORDS = (
    "yes no on off Yes NO y n N Y 010 007 1_000 0x1F 0o17 1:30 2024-01-01 +5 .5 5. 1e3 "
    ".inf .nan 1.2.3 None"
)


def parse(text: str, problems: ProblemList | None = None) -> Node:
    """Return the tree of a text."""
    return parse_yaml(text, "file.yaml", problems or ProblemList())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, None) for word in ("null", "~", "")),
        *(("true", True), ("False", False), ("TRUE", True)),
        *(("0", 0), ("12", 12), ("-3", -3), ("1.5", 1.5), ("-0.25", -0.25), ("1.0e3", 1000.0)),
        *((word, word) for word in WORDS.split()),
        *(('"1"', "1"), ("'true'", "true"), ("!!str 3", "3")),
        ("<< config.x >>", "<< config.x >>"),
    ],
)
def test_scalars_are_values_or_stay_text(text: str, value: object) -> None:
    """Null, booleans, decimal integers and decimals with a dot are values.

    Other words stay text.
    """
    result = to_plain(parse(f"key: {text}"))
    assert result == {"key": value}
    assert type(result["key"]) is type(value)
    assert to_plain(parse(f"[{text or '~'}]")) == [value]


def test_every_node_knows_its_place() -> None:
    """Line and column of keys and values count from 1.

    A line of a literal block is below its mark.
    """
    root = parse('a:\n  - b: x\n    c: [1, 22]\nd: |\n  one\n  two\ne: "one\\ntwo"\n')
    assert str(root.at("a", 0, "c", 1).place) == "file.yaml:3:12"
    assert str(root.at("a", 0).key_place("c")) == "file.yaml:3:5"
    assert (root.at("d").place_of_line(2).line, root.at("e").place_of_line(2).line) == (6, 7)


def test_merge_keys_fill_what_is_not_given() -> None:
    """`<<: *anchor` merges a mapping, a list of them in order.

    Given keys win. A file may be empty.
    """
    anchors = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\n"
    root = parse(f"{anchors}z: {{<<: [*x, *y], a: 0}}\nw:\n  <<: *x\n  d: 4\n")
    assert to_plain(root.at("z")) == {"a": 0, "b": 1, "c": 2}
    assert to_plain(root.at("w")) == {"a": 1, "b": 1, "d": 4}
    assert to_plain(parse("# only a comment\n")) is None


@pytest.mark.parametrize(
    ("text", "errors", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", ["E103 file.yaml:3:1"], "key `a` is given twice: lines 1 and 3"),
        ("<<: 3\n", ["E108 file.yaml:1:5"], "`<<` merges mappings only"),
        ("1: a\ntrue: b\n", ["E108 file.yaml:1:1", "E108 file.yaml:2:1"], "put the key in quotes"),
        ("[a, b]: c\n", ["E108 file.yaml:1:1"], "a key must be text"),
        *(
            (f"a: 1\nb: {tag} x\n", ["E104 file.yaml:2:4"], "unknown YAML tag")
            for tag in ("!python/object:os.system", "!foo", "!!python/name:x", "!!binary")
        ),
    ],
)
def test_mistakes_do_not_stop_the_reader(text: str, errors: list[str], words: str) -> None:
    """A key given twice, a key that is no text, a tag other than `!include` and the plain ones."""
    problems = ProblemList()
    parse(text, problems)
    assert list_errors(problems) == errors
    assert words in f"{problems.errors[0].message} {problems.errors[0].hint}"


LAUGHS = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("c: {{ sample.x }}\n", "E102", "put it in quotes"),
        ("a: [1, 2\nb: 3\n", "E102", "that begins in line 1"),
        ("a: b: c\n", "E102", "--> file.yaml:1:5"),
        ("\ta: 1\n", "E102", "--> file.yaml:1:1"),
        ("a: *x\n", "E102", "found undefined alias"),
        ("a: &x [1, *x]\n", "E104", "levels"),
        (LAUGHS, "E104", "nodes"),
        ("[" * 5000 + "]" * 5000, "E104", "deep"),
        ("a: 1\n---\nb: 2\n", "E102", "single document"),
    ],
)
def test_what_cannot_be_read_at_all_is_raised(text: str, code: str, words: str) -> None:
    """Bad syntax with line and column, aliases that lead nowhere, and what would grow without
    end.
    """
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert caught.value.code == code
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "raw", "error"),
    [
        ("missing.yaml", None, "E101 missing.yaml"),
        (".", None, "E101 ."),
        ("latin.yaml", b"a: 1\nb: caf\xe9\n", "E102 latin.yaml:2:7"),
        ("nul.yaml", b"a: 1\nb: \0\n", "E102 nul.yaml:2:4"),
        ("big.yaml", b"a: 1\n" * 10, "E104 big.yaml"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, raw: bytes | None, error: str
) -> None:
    """A missing file, a folder, bad UTF-8, NUL and a huge file are errors that name the file."""
    monkeypatch.setattr(nodes, "MAX_YAML_BYTES", 20)
    if raw is not None:
        (tmp_path / name).write_bytes(raw)
    with pytest.raises(SpecError) as caught:
        read_yaml(tmp_path / name, name, ProblemList())
    assert f"{caught.value.code} {caught.value.where}" == error


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    """A byte order mark at the start of a file is not part of the first key."""
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert to_plain(read_yaml(tmp_path / "bom.yaml", "bom.yaml", ProblemList())) == {"a": 1}


def load(
    folder: Path, name: str = "a.yaml", *, allow_outside: bool = False
) -> tuple[Node, ProblemList]:
    """Return the tree of a file with everything followed, and what was found."""
    problems = ProblemList()
    environment = Environment({"PART": "part"})
    inclusion = Inclusion(folder, environment, problems, allow_outside=allow_outside)
    tree = read_yaml(folder / name, name, problems)
    return inclusion.follow(tree, ((folder / name).resolve(),)), problems


@pytest.mark.parametrize(
    ("files", "plain"),
    [
        ({"a": "x: {$ref: s/b.yaml}\n", "s__b": "t: !include c.md\n", "s__c_md": "\n one: two \n"},
        {"x": {"t": "one: two"}}),
        ({"a": "m: {$ref: m.yaml}\nl: [{$ref: l.yaml}]\n", "m": "{k: 1}", "l": "[1, 2]"},
        {"m": {"k": 1}, "l": [[1, 2]]}),
        ({"a": "m: {$ref: m.yaml, extra: 2, k: 1}\n", "m": "{k: 1}"}, {"m": {"k": 1, "extra": 2}}),
        ({"a": "x: {$ref: b.yaml}\ny: {$ref: b.yaml}\n", "b": "1\n"}, {"x": 1, "y": 1}),
        ({"a": "x: {$ref: $PART/b.yaml}\n", "part__b": "1\n"}, {"x": 1}),
        ({"a": "source: {rows: [{$ref: x}]}\n"}, {"source": {"rows": [{"$ref": "x"}]}}),
        ({"a": "rows: [{q: !include q.md, r: {s: [!include q.md]}}]\n", "q_md": " $H {{ x }}\n"},
        {"rows": [{"q": "$H {{ x }}", "r": {"s": ["$H {{ x }}"]}}]}),
        ({"a": "rows: {$ref: r.yaml}\n", "r": "[{$ref: x, q: !include q.md}]\n", "q_md": "Q\n"},
        {"rows": [{"$ref": "x", "q": "Q"}]}),
    ],
)  # fmt: skip
def test_other_files_are_put_in_place(write: Write, files: dict[str, str], plain: object) -> None:
    """`!include` is the stripped text of a file, `$ref` what a YAML file holds, with its siblings
    added.

    Both are relative to the file that names them; a column called `$ref` in rows is a column.
    """
    names = [name if name.endswith("_md") else f"{name}_yaml" for name in files]
    root, problems = load(write(**dict(zip(names, files.values(), strict=True))))
    assert (to_plain(root), problems.errors) == (plain, [])


@pytest.mark.parametrize(
    ("text", "second", "errors", "words"),
    [
        ("m:\n  $ref: b.yaml\n  k: 2\n", "k: 1\n", ["E105 a.yaml:3:3"],
        "`k` contradicts the file that `$ref`"),
        ("m: {$ref: b.yaml, k: 2}\n", "[1]\n", ["E105 a.yaml:1:11"], "needs a mapping"),
        ("x: {$ref: b.yaml}\n", "y: {$ref: a.yaml}\n", ["E105 b.yaml:1:11"],
        "`$ref` refers to itself: `a.yaml` → `b.yaml` → `a.yaml`"),
        ("x: {$ref: no.yaml}\ny: !include no.md\n", "", ["E101 a.yaml:1:11", "E101 a.yaml:2:4"],
        "not exist"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_reported_where_it_is_named(
    write: Write, text: str, second: str, errors: list[str], words: str
) -> None:
    """And the rest is read."""
    write(a_yaml=f"{text}z: 1\n", b_yaml=second)
    root, problems = load(Path())
    assert list_errors(problems) == errors
    assert words in problems.errors[0].message
    assert to_plain(root)["z"] == 1


@pytest.mark.parametrize(
    "text", ["x: {$ref: ../b.yaml}\n", "x: !include ../b.yaml\n", "x: {$ref: link.yaml}\n"]
)
def test_the_folder_is_the_limit(write: Write, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither `$ref` nor `!include` nor a link may leave the project folder, unless that is
    allowed.
    """
    folder = write(sub__a_yaml=text, b_yaml="secret\n")
    (folder / "sub" / "link.yaml").symlink_to(folder / "b.yaml")
    monkeypatch.chdir(folder / "sub")
    _, problems = load(Path())
    assert [error.code for error in problems.errors] == ["E105"]
    assert "--allow-outside" in str(problems.errors[0].hint)
    root, problems = load(Path(), allow_outside=True)
    assert (to_plain(root), problems.errors) == ({"x": "secret"}, [])


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
def test_included_lines_have_their_place(write: Write, text: str, line: int, place: str) -> None:
    """What is stripped at the front counts, on the first line also in its column."""
    write(a_yaml="!include a.md\n", a_md=text)
    assert str(load(Path())[0].place_of_line(line)) == place


def test_the_first_file_must_be_there(write: Write) -> None:
    """The file the caller names is read, or nothing is; a node of another file says so."""
    folder = write(a_yaml="x: {$ref: b.yaml}\n", b_yaml="\ny: 1\n")
    assert str(load(Path())[0].at("x", "y").place) == "b.yaml:2:4"
    with pytest.raises(SpecError, match="does not exist"):
        load(folder, "none.yaml")


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        *(("$V", "one"), ("${V}", "one"), ("$V/x", "one/x"), ("${V}x$W", "onextwo")),
        *((text, text) for text in ("$V and more", "x$V", "$", "$5", "openai$gpt", "${V")),
    ],
)
def test_a_value_that_begins_with_a_name_is_expanded(text: str, expanded: str) -> None:
    """`$V`, `${V}` and `$V/x` are filled in; text with white space, or a `$` further on, stays."""
    environment = Environment({"V": "one", "W": "two"})
    assert environment.expand(text, Place()) == expanded
    assert "one" not in repr(environment)


def test_an_unset_name_is_an_error() -> None:
    """A name that is not set is an error with a hint."""
    with pytest.raises(SpecError) as caught:
        Environment({"PATHS": "x"}).expand("$PATH_S", Place("run.yaml", 3, 4))
    assert (caught.value.code, str(caught.value.where)) == ("E106", "run.yaml:3:4")
    expected = "did you mean `PATHS`? or set it in the environment or in `.env`: `PATH_S=…`"
    assert caught.value.hint == expected


def test_an_env_file_is_parsed() -> None:
    """Names, `export`, quotes, escapes and comments are read; nothing is expanded."""
    text = 'A=1\n# note\n\nexport B = two words # note\nC=\'a # $A\'\nD="x\\ny\\"" # z\nE=\nF=a#b\n'
    results = {"A": "1", "B": "two words", "C": "a # $A", "D": 'x\ny"', "E": "", "F": "a#b"}
    assert parse_env(text, ".env") == results


@pytest.mark.parametrize("line", ["no equals sign", "1A=x", "A='open", 'A="x" y'])
def test_a_bad_line_names_its_number(line: str) -> None:
    """A line of another form is an error with its number."""
    with pytest.raises(SpecError) as caught:
        parse_env(f"A=1\n{line}\n", ".env")
    assert (caught.value.code, str(caught.value.where)) == ("E102", ".env:2")


def test_the_environment_wins_over_env_files(tmp_path: Path, environ: dict[str, str]) -> None:
    """`.env` beside the file fills what is left open.

    `--env FILE` is read instead, and must be there.
    """
    (tmp_path / ".env").write_text("A=file\nB=file\n")
    (tmp_path / "other").write_text("B=named\n")
    environ["A"] = "process"
    assert load_environment(tmp_path, None).values == {"A": "process", "B": "file"}
    assert load_environment(tmp_path, tmp_path / "other").values == {"A": "process", "B": "named"}
    with pytest.raises(SpecError, match=r"^error\[E101\]"):
        load_environment(tmp_path, tmp_path / "none")
