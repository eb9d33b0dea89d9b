"""Laws of the sandbox, its filters and its limits: what a template may reach, call, use and make of
a row.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from pathlib import Path
from typing import get_args

import pytest

from answerkey.errors import SpecError
from answerkey.templates import FilterOp, RowError, Template
from answerkey.templates.filters import FILTERS, JOIN_TEXT, LOOP_STEPS

pytestmark = pytest.mark.usefixtures("everywhere")

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "templates.md"


def evaluate(source: str, **row: object) -> object:
    """Return the value of a template for a row with these columns."""
    return Template.compile(source).evaluate(sample=row)


def message_of(source: str, **row: object) -> str:
    """Return the message of a template's error with a row."""
    with pytest.raises(RowError) as caught:
        evaluate(source, **row)
    return caught.value.message


@pytest.mark.parametrize(
    ("source", "row", "value"),
    [
        # Its own lists and mappings a template may change.
        ("{% set xs = [1] %}{% do xs.append(2) %}{{ xs }}", {}, "[1, 2]"),
        ("{% set xs = [2, 1] %}{% do xs.sort() %}{{ xs }}", {}, "[1, 2]"),
        ("{{ 'a'.join(['x', 'y']) }}", {}, "xay"),
        # JSON text has the types of JSON; `tojson` sorts nothing, and escapes nothing for HTML.
        ("{{ sample.x | fromjson }}", {"x": '{"a": [1, "1", null]}'}, {"a": [1, "1", None]}),
        (
            "{{ sample.x | fromjson }}",
            {"x": '["\\u0041\\ud83d\\ude00", 1.5]'},
            ["A\U0001f600", 1.5],
        ),
        ("{{ sample.x | json_escape }}", {"x": 'é "q" \\ \n'}, 'é \\"q\\" \\\\ \\n'),
        ('{"a": "{{ sample.x | json_escape }}"}', {"x": '"'}, '{"a": "\\""}'),
        (
            "{{ sample.x | tojson }}",
            {"x": {"b": "<&'é>", "a": [True, None, 1.5]}},
            '{"b": "<&\'é>", "a": [true, null, 1.5]}',
        ),
        ("{{ sample.x | tojson(indent=1) }}", {"x": [1]}, "[\n 1\n]"),
        ("{{ sample.x | map('upper') | tojson }}", {"x": ["a"]}, '["A"]'),
        ("{{ sample.x | tojson }}", {"x": dt.date(2026, 1, 2)}, '"2026-01-02"'),
        # `zip` ends with the shortest list, the later mapping of `merge` wins.
        (
            "{{ sample.k | zip(sample.t) }}",
            {"k": list("ABC"), "t": list("xy")},
            [["A", "x"], ["B", "y"]],
        ),
        ("{% for k, t in ['A'] | zip('xy') %}{{ k }}{{ t }} {% endfor %}", {}, "Ax "),
        (
            "{{ sample.a | merge({'y': 2}, {'z': 3}) }}",
            {"a": {"x": 1, "y": 1}},
            {"x": 1, "y": 2, "z": 3},
        ),
        ("{{ sample.x | int }}", {"x": "?"}, 0),
    ],
)
def test_what_templates_may_use(source: str, row: dict[str, object], value: object) -> None:
    """Their own lists, and the filters that they have beside Jinja's own."""
    assert evaluate(source, **row) == value


BAD_JSON = "`fromjson`: \"['A']\" is not JSON (Expecting value: line 1 column 2 (char 1))"


@pytest.mark.parametrize(
    ("source", "row", "message"),
    [
        ("{{ sample.x | fromjson }}", {"x": "['A']"}, BAD_JSON),
        ("{{ sample.x | fromjson }}", {"x": ["A"]}, "`fromjson` reads text, and this is a list"),
        ("{{ sample.y | fromjson }}", {"x": 1}, "`y` is not a column"),
        (
            "{{ sample.x | fromjson }}",
            {"x": '"\\ud800"'},
            "'utf-8' codec can't encode character '\\ud800'",
        ),
        ("{{ sample.x | fromjson }}", {"x": "NaN"}, "`fromjson`: NaN is not JSON"),
        ("{{ sample.x | fromjson }}", {"x": "[-Infinity]"}, "`fromjson`: -Infinity is not JSON"),
        ("{{ sample.x | fromjson }}", {"x": "1e999"}, "`fromjson`: 1e999 is too large a number"),
        (
            "{{ sample.x | tojson }}",
            {"x": math.nan},
            "Out of range float values are not JSON compliant",
        ),
        ("{{ sample.x | merge(['x']) }}", {"x": {}}, "'list' object is not a mapping"),
        (
            "{{ sample.x | regex_replace('(') }}",
            {"x": "a"},
            "not a regular expression: missing ), unterminated subpattern at position 0",
        ),
        # Against Jinja's own zero: no silent first element.
        (
            "{{ sample.c[sample.x | int(default=none)] }}",
            {"x": "?", "c": ["A"]},
            "a list has no such element",
        ),
        # A name that is not there is the same error inside a list.
        *(
            (source, {"a": 1}, "`b` is not a column")
            for source in (
                *("{{ [sample.b] }}", "{{ '%s' % [sample.b] }}", "{{ '%s' | format([sample.b]) }}"),
                "{{ [[sample.b]] ~ 'x' }}",
            )
        ),
        # A function, one of Jinja's own things and what no cell can hold are no values.
        *(
            (source, {}, f"the template yields {what}, which is no value")
            for source, what in (
                *(
                    ("{{ range }}", "a function"),
                    ("{{ ['a'] | first | attr('upper') }}", "a function"),
                ),
                ("x{{ [namespace(a=1)] }}", "Jinja's `Namespace`"),
                ("{{ namespace() }}", "Jinja's `Namespace`"),
            )
        ),
    ],
)
def test_what_is_refused_is_named(source: str, row: dict[str, object], message: str) -> None:
    """It is the error of the row."""
    assert message_of(source, **row).startswith(message)


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


def test_a_block_inside_a_loop_sees_the_same_row_and_takes_the_same_steps() -> None:
    """Its context is derived from that of the row; a loop in it is no way around the limits."""
    source = (
        "{% for x in sample.c %}{% block b scoped %}{{ sample.c[0] }}{% endblock %}{% endfor %}"
    )
    assert Template.compile(source).evaluate(sample={"c": [7, 8]}) == "77"
    inner = "{% for y in range(9999) %}{% endfor %}"
    loops = "{% for x in range(9999) %}{% block b scoped %}" + inner + "{% endblock %}{% endfor %}"
    assert message_of(loops) == "the template takes more than 1,000,000 steps on this row"


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
def test_regex_replace_takes_pattern_repl_multiline_ignorecase_count(
    arguments: str, text: str
) -> None:
    """Flags are off and every match is replaced, unless said otherwise."""
    assert evaluate(f"{{{{ sample.x | regex_replace({arguments}) }}}}", x="abc\naBC\nabc") == text


@pytest.mark.parametrize(
    "name", [*sorted(FILTERS.keys() - {"int", "join", LOOP_STEPS, JOIN_TEXT}), *get_args(FilterOp)]
)
def test_every_filter_is_on_its_page(name: str) -> None:
    """The reference page names each filter of templates and each op of row filters."""
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{name}`" in text or f"`{name}(" in text


TEXT = (
    "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = %s %}{% endfor "
    "%}{{ ns.x }}"
)

LIST = (
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = %s %}{% endfor "
    "%}{{ ns.x }}"
)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        (
            "{% for i in range(99999) %}{% for j in range(99999) | map('string') %}{% "
            "endfor %}{% endfor %}"
        ),
        "{% for i in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{{ loop([1]) }}{% endfor %}",
        (
            "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro "
            "%}{{ f(50) }}"
        ),
        "{% set xs = [1] %}{% for x in xs %}{% do xs.append(1) %}{% endfor %}",
        "{% for i in range(99999) %}{{ sample.x }}{% endfor %}",
        "{% set t %}{% for i in range(99999) %}" + "y" * 1000 + "{% endfor %}{% endset %}{{ t }}",
    ],
)
def test_a_row_has_a_number_of_steps(source: str) -> None:
    """Loops, calls and printed text are counted together, however they are nested."""
    assert message_of(source, x="f" * 5000) in {
        "the template takes more than 1,000,000 steps on this row",
        "the template calls itself too often, or the value is nested too deeply",
    }


@pytest.mark.parametrize(
    "source",
    [
        "{{ {'a': 1} | tojson(indent=1000000000) }}",
        *(TEXT.replace("%s", "ns.x ~ ns.x"), TEXT.replace("%s", "ns.x + ns.x")),
        TEXT.replace("%s", "[ns.x, ns.x] | join"),
        *(LIST.replace("%s", "[ns.x, ns.x]"), LIST.replace("%s", "ns.x + ns.x")),
        "{% set xs = [] %}{% do xs.append(xs) %}{{ xs }}",
    ],
)
def test_what_would_be_too_large_is_not_made(source: str) -> None:
    """Repetitions and doublings are told before they fill the memory."""
    assert message_of(source, x="f" * 5000)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        *(("{{ 7 % 3 }}", 1), ("{{ 1 + 2 }}", 3), ("{{ [1] + [2] }}", [1, 2])),
        ("{{ 'a' ~ 1 ~ none ~ ['b'] }}", "a1None['b']"),
        ("{{ 'x' ~ (sample.c | map('upper')) }}", "x['A', 'B']"),
        ("{{ sample.c | map('first') | map('replace', 'a', 'c') | list }}", ["c", "b"]),
        ("{{ sample.c | map('default', 'x') | map('string') | unique | list }}", ["a", "b"]),
        ("{{ sample.c | join(', ') }}", "a, b"),
        ("{{ [{'k': 1}, {'k': 2}] | join('-', attribute='k') }}", "1-2"),
        ("{{ ', '.join(sample.c | map('upper')) }}", "A, B"),
        ("{{ 12 | string }}", "12"),
        (
            "{% for x in sample.c %}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %}",
            "1/2False 2/2True ",
        ),
        ("{% for x in sample.c | map('upper') %}{{ loop.revindex }}{{ x }}{% endfor %}", "2A1B"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% else %}none{% endfor %}", "a1"),
        ("{% for x in [] %}{% else %}none{% endfor %}", "none"),
        ("{{ 'ff' | int(0, 16) }}", 255),
        ("{{ namespace(a=' b ').a | trim }}", "b"),
        (
            "{% for x in [[1, [2]]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}",
            "12",
        ),
    ],
)
def test_honest_templates_do_not_notice_the_limits(source: str, value: object) -> None:
    """Every guarded operator, filter and method yields what Jinja's own does."""
    assert evaluate(source, c=["a", "b"]) == value


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "{{ 'a' | format(1, b=2) }}",
            "can't handle positional and keyword arguments at the same time",
        ),
        (
            "{% for i in range(2500) %}{{ sample.x }}{% endfor %}",
            "the template makes a value of more than 10,000,000 elements or 1,000,000 parts",
        ),
        ("{{ sample.x | int(0, 16) }}", "`int`: 5,000 digits are too many"),
    ],
)
def test_the_limit_is_named(source: str, message: str) -> None:
    """With the numbers that went beyond it."""
    assert message_of(source, x="f" * 5000) == message


@pytest.mark.parametrize(
    "source", ["{{ 'y' * 20000 }}", "{{ ['y'] * 20000 }}", "{{ sample.a }}{{ 'y' * 20000 }}"]
)
def test_what_is_made_of_nothing_is_refused(source: str) -> None:
    """Texts, lists and what is printed are in proportion to what the template reads and says."""
    message = message_of(source, a=1, unread="y" * 100_000)
    assert re.match(r"the template makes [0-9,]+ characters out of", message)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ sample.x * 20 }}", "y" * 20_000),
        ("{{ [sample.x] * 20 }}", ["y" * 1000] * 20),
        ("{{ sample.x * 20 }}.", "y" * 20_000 + "."),
        ("{{ sample * 1 if false else sample.x * 20 }}", "y" * 20_000),
    ],
)
def test_what_is_made_of_much_may_be_large(source: str, value: object) -> None:
    """A row of a thousand characters may become twenty thousand."""
    assert evaluate(source, x="y" * 1000) == value


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x" * 2_000_001, "the template has 2,000,001 characters; 2,000,000 are allowed"),
        (
            "{{ 1" + " + 1" * 10_001 + "}}",
            "template does not parse: it has more than 20,000 words and signs",
        ),
    ],
    ids=["text", "code"],
)
def test_a_template_of_absurd_length_is_not_read(source: str, message: str) -> None:
    """Neither its text, nor what is code in it."""
    with pytest.raises(SpecError) as caught:
        Template.compile(source)
    assert (caught.value.code, caught.value.message) == ("E112", message)
