"""Laws of the sandbox and of the filters: what a template may reach, call and use."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import get_args

import pytest

from answerkey.templates import FilterOp, RowError, Template
from answerkey.templates.environment import FILTERS

pytestmark = pytest.mark.usefixtures("everywhere")


def evaluate(source: str, **row: object) -> object:
    """Return the value of a template for a row with these columns."""
    return Template.compile(source).evaluate(sample=row)


def message_of(source: str, **row: object) -> str:
    """Return the message of a template's trouble with a row."""
    with pytest.raises(RowError) as caught:
        evaluate(source, **row)
    return caught.value.message


@pytest.mark.parametrize(
    "source",
    [
        "{{ [sample.b] }}",
        "{{ '%s' % [sample.b] }}",
        "{{ '%s' | format([sample.b]) }}",
        "{{ [[sample.b]] ~ 'x' }}",
    ],
)
def test_a_name_that_is_not_there_is_not_printed_inside_a_list(source: str) -> None:
    """It is the same error as outside of one."""
    assert message_of(source, a=1) == "`b` is not a column"


@pytest.mark.parametrize(
    ("source", "refusal"),
    [
        ("{{ dict.update }}", "access to attribute 'update' of 'type' object is unsafe."),
        ("{{ (1).from_bytes('a'.encode(), 'big') }}", "`from_bytes` is a method of a class"),
        (
            "{% set xs = [2, 1] %}{% do xs.sort(key=sample.c.append) %}",
            "a function cannot be handed to `sort`",
        ),
        ("{% do sample.c.append(1) %}", "`append` would change a value of the row"),
        ("{% do sample.d.e.update(f=1) %}", "`update` would change a value of the row"),
        ("{% set xs = sample.c %}{% do xs.clear() %}", "`clear` would change a value of the row"),
    ],
)
def test_what_a_template_may_not_call_is_named(source: str, refusal: str) -> None:
    """Methods of classes, functions handed to others, and whatever changes the row."""
    assert message_of(source, c=[1], d={"e": {}}) == f"not allowed in a template: {refusal}"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ dict.fromkeys(['a'], 1) }}", {"a": 1}),
        ("{% set xs = [1] %}{% do xs.append(2) %}{{ xs }}", "[1, 2]"),
        ("{% set xs = [2, 1] %}{% do xs.sort() %}{{ xs }}", "[1, 2]"),
        ("{{ 'a'.join(['x', 'y']) }}", "xay"),
    ],
)
def test_a_template_may_change_what_it_makes_itself(source: str, value: object) -> None:
    """Its own lists and mappings."""
    assert Template.compile(source).evaluate(sample={}) == value


def test_a_block_inside_a_loop_sees_the_same_row_and_takes_the_same_steps() -> None:
    """Its context is derived from that of the row; a loop in it is no way around the limits."""
    source = "{% for x in sample.c %}{% block b scoped %}{{ sample.c[0] }}{% endblock %}{% endfor %}"
    assert Template.compile(source).evaluate(sample={"c": [7, 8]}) == "77"
    inner = "{% for y in range(9999) %}{% endfor %}"
    loops = "{% for x in range(9999) %}{% block b scoped %}" + inner + "{% endblock %}{% endfor %}"
    assert message_of(loops) == "the template takes more than 1,000,000 steps on this row"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("{{ range }}", "a function"),
        ("{{ ['a'] | first | attr('upper') }}", "a function"),
        ("x{{ [namespace(a=1)] }}", "Jinja's `Namespace`"),
        ("{{ namespace() }}", "Jinja's `Namespace`"),
        ("{{ (-8) ** 0.5 }}", "a complex"),
    ],
)
def test_what_is_no_value_is_not_handed_on(source: str, what: str) -> None:
    """A function, one of Jinja's own things and what no cell can hold are the row's trouble."""
    assert message_of(source) == f"the template yields {what}, which is no value"


PAGE = Path(__file__).parents[3] / "docs" / "reference" / "templates.md"


def test_fromjson_reads_json_text() -> None:
    """The value has the types of JSON."""
    assert evaluate("{{ sample.x | fromjson }}", x='{"a": [1, "1", null]}') == {"a": [1, "1", None]}


def test_fromjson_refuses_what_is_not_json_text() -> None:
    """Other text and other values are the row's trouble."""
    assert message_of("{{ sample.x | fromjson }}", x="['A']") == (
        "`fromjson`: \"['A']\" is not JSON (Expecting value: line 1 column 2 (char 1))"
    )
    assert message_of("{{ sample.x | fromjson }}", x=["A"]) == "`fromjson` reads text, and this is a list"
    assert message_of("{{ sample.y | fromjson }}", x=1) == "`y` is not a column"


def test_json_escape_fits_between_the_quotes_of_a_json_string() -> None:
    """Quotes, backslashes and line breaks are escaped; letters are not."""
    assert evaluate("{{ sample.x | json_escape }}", x='é "q" \\ \n') == 'é \\"q\\" \\\\ \\n'
    assert evaluate('{"a": "{{ sample.x | json_escape }}"}', x='"') == '{"a": "\\""}'


def test_tojson_writes_plain_json_in_the_order_of_the_keys() -> None:
    """Nothing is sorted, and nothing escaped for HTML."""
    assert evaluate("{{ sample.x | tojson }}", x={"b": "<&'é>", "a": [True, None, 1.5]}) == (
        '{"b": "<&\'é>", "a": [true, null, 1.5]}'
    )
    assert evaluate("{{ sample.x | tojson(indent=1) }}", x=[1]) == "[\n 1\n]"
    assert evaluate("{{ sample.x | map('upper') | tojson }}", x=["a"]) == '["A"]'
    assert evaluate("{{ sample.x | tojson }}", x=dt.date(2026, 1, 2)) == '"2026-01-02"'


def test_tojson_refuses_what_json_cannot_hold() -> None:
    """NaN and bytes are the row's trouble."""
    assert "JSON" in message_of("{{ sample.x | tojson }}", x=math.nan)
    assert message_of("{{ sample.x | tojson }}", x=b"a") == "`tojson`: bytes have no JSON form"


def test_zip_puts_lists_side_by_side() -> None:
    """The shortest list ends it."""
    row = {"keys": ["A", "B", "C"], "texts": ["x", "y"]}
    assert evaluate("{{ sample['keys'] | zip(sample.texts) }}", **row) == [["A", "x"], ["B", "y"]]
    assert (
        evaluate("{% for k, t in sample['keys'] | zip(sample.texts) %}{{ k }}{{ t }} {% endfor %}", **row)
        == "Ax By "
    )


def test_merge_joins_mappings_and_the_later_wins() -> None:
    """The mappings themselves stay as they are."""
    row = {"a": {"x": 1, "y": 1}, "b": {"y": 2}}
    assert evaluate("{{ sample.a | merge(sample.b, {'z': 3}) }}", **row) == {"x": 1, "y": 2, "z": 3}
    assert row["a"] == {"x": 1, "y": 1}


def test_merge_refuses_what_is_no_mapping() -> None:
    """A list has no keys."""
    assert "keys" in message_of("{{ sample.a | merge(['x']) }}", a={})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        *(("'b', 'x'", "axc\naBC\naxc"), ("'^a'", "bc\naBC\nabc")),
        ("'^a', '', true", "bc\nBC\nbc"),
        ("'b', 'x', false, true", "axc\naxC\naxc"),
        ("'b', 'x', ignorecase=true, count=2", "axc\naxC\nabc"),
        (r"'(b)(c)', '\\2\\1'", "acb\naBC\nacb"),
    ],
)
def test_regex_replace_takes_pattern_repl_multiline_ignorecase_count(arguments: str, text: str) -> None:
    """Flags are off and every match is replaced, unless said otherwise."""
    assert evaluate(f"{{{{ sample.x | regex_replace({arguments}) }}}}", x="abc\naBC\nabc") == text


def test_regex_replace_refuses_what_is_no_regular_expression() -> None:
    """The reason is the row's trouble."""
    assert message_of("{{ sample.x | regex_replace('(') }}", x="a") == (
        "not a regular expression: missing ), unterminated subpattern at position 0"
    )


@pytest.mark.parametrize("name", [*FILTERS, *get_args(FilterOp)])
def test_every_filter_is_on_its_page(name: str) -> None:
    """The reference page names each filter of templates and each op of row filters."""
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{name}`" in text or f"`{name}(" in text


def test_int_with_a_default_of_null_is_no_silent_zero() -> None:
    """The page's advice against Jinja's own zero holds."""
    assert evaluate("{{ sample.x | int }}", x="?") == 0
    assert (
        message_of("{{ sample.c[sample.x | int(default=none)] }}", x="?", c=["A"]) == "null is not an index"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"\\ud800"', "the text holds U+D800, which is half a character"),
        ("NaN", "`fromjson`: NaN is not JSON"),
        ("[-Infinity]", "`fromjson`: -Infinity is not JSON"),
        ("1e999", "`fromjson`: 1e999 is too large a number"),
    ],
)
def test_fromjson_refuses_what_no_file_could_hold(text: str, message: str) -> None:
    """Half characters, and numbers that JSON does not have."""
    assert message_of("{{ sample.x | fromjson }}", x=text) == message


def test_fromjson_reads_escapes_and_decimals() -> None:
    """As every JSON reader does."""
    assert evaluate("{{ sample.x | fromjson }}", x='["\\u0041\\ud83d\\ude00", 1.5]') == ["A\U0001f600", 1.5]
