from __future__ import annotations

from pathlib import Path

import pytest

from answerkey.errors import SpecError
from answerkey.spec import nodes
from answerkey.spec.nodes import MapNode, Node, Problems, parse_yaml, read_yaml, to_plain


def parse(text: str, findings: Problems | None = None) -> Node:
    """Return the tree of a text."""
    return parse_yaml(text, "file.yaml", findings or Problems())


def read(text: str) -> object:
    """Return a text as plain values."""
    return to_plain(parse(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("False", False),
        ("TRUE", True),
        ("0", 0),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("1.0e3", 1000.0),
    ],
)
def test_plain_scalars_have_their_types(text: str, value: object) -> None:
    """Null, booleans, decimal integers and decimals with a dot are values."""
    found = read(f"key: {text}")
    assert found == {"key": value}
    assert type(found["key"]) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "off",
        "Yes",
        "NO",
        "y",
        "n",
        "N",
        "Y",
        "010",
        "007",
        "1_000",
        "0x1F",
        "0o17",
        "1:30",
        "2024-01-01",
        "+5",
        ".5",
        "5.",
        "1e3",
        ".inf",
        ".nan",
        "1.2.3",
        "None",
    ],
)
def test_other_words_stay_text(text: str) -> None:
    """Words and digits that YAML 1.1 would turn into something else stay the text they are."""
    assert read(f"key: [{text}]") == {"key": [text]}


def test_quotes_and_str_tag_make_text() -> None:
    """A quoted scalar, and one tagged `!!str`, is text."""
    assert read("""a: "1"\nb: 'true'\nc: !!str 3\nd: ! 4""") == {"a": "1", "b": "true", "c": "3", "d": "4"}


def test_every_node_knows_its_place() -> None:
    """Line and column of keys and values count from 1."""
    root = parse("a:\n  - b: x\n    c: [1, 22]\n")
    assert str(root.at("a", 0, "c", 1).place) == "file.yaml:3:12"
    inner = root.at("a", 0)
    assert isinstance(inner, MapNode)
    assert str(inner.key_place("c")) == "file.yaml:3:5"


def test_lines_of_a_block_are_found() -> None:
    """A line inside a literal block stands that many lines below its mark; in quotes, where they begin."""
    root = parse('a: |\n  one\n  two\nb: "one\\ntwo"\n')
    assert root.at("a").place_of_line(2).line == 3
    assert root.at("b").place_of_line(2).line == 4


def test_duplicate_keys_name_both_lines() -> None:
    """A key given twice is an error that names both lines; the first value is kept."""
    findings = Problems()
    root = parse("a: 1\nb: 2\na: 3\n", findings)
    assert [error.code for error in findings.errors] == ["E103"]
    assert findings.errors[0].message == "key `a` is given twice: lines 1 and 3"
    assert str(findings.errors[0].where) == "file.yaml:3:1"
    assert to_plain(root) == {"a": 1, "b": 2}


def test_merge_keys_fill_what_is_not_given() -> None:
    """`<<: *anchor` merges a mapping, a list of them in order; given keys win."""
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: [*x, *y], a: 0}\nw:\n  <<: *x\n  d: 4\n"
    root = parse(text)
    assert to_plain(root.at("z")) == {"a": 0, "b": 1, "c": 2}
    assert to_plain(root.at("w")) == {"a": 1, "b": 1, "d": 4}


def test_merging_something_else_is_an_error() -> None:
    """`<<` takes mappings only."""
    findings = Problems()
    parse("<<: 3\n", findings)
    assert findings.errors[0].code == "E108"


def test_a_config_value_is_no_merge_key() -> None:
    """An unquoted `<< config.x >>` is text."""
    assert read("a: << config.x >>") == {"a": "<< config.x >>"}


@pytest.mark.parametrize(
    "tag", ["!python/object:os.system", "!foo", "!!timestamp", "!!python/name:x", "!!binary"]
)
def test_unknown_tags_are_refused(tag: str) -> None:
    """A tag other than `!include` and the plain ones is an error at its place."""
    findings = Problems()
    parse(f"a: 1\nb: {tag} x\n", findings)
    assert [error.code for error in findings.errors] == ["E104"]
    assert str(findings.errors[0].where) == "file.yaml:2:4"


def test_keys_must_be_text() -> None:
    """A key that is a number, a boolean or a mapping is an error; an unquoted template gets a hint."""
    findings = Problems()
    parse("1: a\ntrue: b\nc: {{ sample.x }}\n", findings)
    assert [error.code for error in findings.errors] == ["E108", "E108", "E108"]
    assert findings.errors[0].hint == "put the key in quotes"
    assert "needs quotes" in str(findings.errors[2].hint)


@pytest.mark.parametrize(
    ("text", "place"),
    [("a: [1, 2\nb: 3\n", "file.yaml:2:2"), ("a: b: c\n", "file.yaml:1:5"), ("\ta: 1\n", "file.yaml:1:1")],
)
def test_bad_yaml_has_line_and_column(text: str, place: str) -> None:
    """YAML that does not parse is an error with line and column."""
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert caught.value.code == "E102"
    assert str(caught.value.where) == place


def test_an_alias_without_an_anchor_is_an_error() -> None:
    """An alias needs an anchor before it."""
    with pytest.raises(SpecError, match="alias `\\*x` has no anchor"):
        parse("a: *x\n")


def test_an_alias_inside_itself_is_refused() -> None:
    """A tree that holds itself is refused."""
    with pytest.raises(SpecError) as caught:
        parse("a: &x [1, *x]\n")
    assert caught.value.code == "E104"


def test_expanded_aliases_are_counted() -> None:
    """A small file that expands to very many nodes is refused."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(SpecError) as caught:
        parse("\n".join(lines))
    assert caught.value.code == "E104"
    assert "nodes" in caught.value.message


def test_deep_nesting_is_refused() -> None:
    """Nesting has a limit."""
    with pytest.raises(SpecError) as caught:
        parse("[" * 5000 + "]" * 5000)
    assert caught.value.code == "E104"


def test_a_second_document_is_refused() -> None:
    """A file holds one document."""
    with pytest.raises(SpecError, match="second YAML document"):
        parse("a: 1\n---\nb: 2\n")


def test_an_empty_file_is_null() -> None:
    """A file without content is null."""
    assert read("# only a comment\n") is None


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file, a folder, bad UTF-8, NUL and a huge file are errors that name the file."""
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9\n")
    (tmp_path / "nul.yaml").write_bytes(b"a: 1\nb: \0\n")
    (tmp_path / "big.yaml").write_text("a: 1\n" * 10)
    codes = {}
    for name in ("missing.yaml", ".", "latin.yaml", "nul.yaml"):
        with pytest.raises(SpecError) as caught:
            read_yaml(tmp_path / name, name, Problems())
        codes[name] = (caught.value.code, str(caught.value.where))
    assert codes == {
        "missing.yaml": ("E101", "missing.yaml"),
        ".": ("E101", "."),
        "latin.yaml": ("E102", "latin.yaml:2"),
        "nul.yaml": ("E102", "nul.yaml:2"),
    }
    monkeypatch.setattr(nodes, "MAX_YAML_BYTES", 10)
    with pytest.raises(SpecError) as caught:
        read_yaml(tmp_path / "big.yaml", "big.yaml", Problems())
    assert caught.value.code == "E104"


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    """A byte order mark at the start of a file is not part of the first key."""
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert to_plain(read_yaml(tmp_path / "bom.yaml", "bom.yaml", Problems())) == {"a": 1}
