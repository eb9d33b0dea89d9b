"""Laws of the limits: a template that does too much on a row is the row's trouble, and soon."""

from __future__ import annotations

import pytest

from answerkey.errors import SpecError
from answerkey.templates import RowError, Template

pytestmark = pytest.mark.usefixtures("everywhere")

TEXT = "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = %s %}{% endfor %}{{ ns.x }}"

LONG_PATTERN = "not a regular expression: the pattern has 2,001 characters; 2,000 are allowed"

LONG_TEXT = "`regex_replace` makes more than 10,000,000 characters"

LIST = "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = %s %}{% endfor %}{{ ns.x }}"


def message_of(source: str) -> str:
    """Return the message of a template's trouble."""
    with pytest.raises(RowError) as caught:
        Template.compile(source).evaluate(sample={"x": "f" * 5000})
    return caught.value.message


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) | map('string') %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{{ loop([1]) }}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(50) }}",
        "{% set xs = [1] %}{% for x in xs %}{% do xs.append(1) %}{% endfor %}",
        "{% for i in range(99999) %}{{ sample.x }}{% endfor %}",
        "{% set t %}{% for i in range(99999) %}" + "y" * 1000 + "{% endfor %}{% endset %}{{ t }}",
    ],
)
def test_a_row_has_a_number_of_steps(source: str) -> None:
    """Loops, calls and printed text are counted together, however they are nested."""
    assert message_of(source) in {
        "the template takes more than 1,000,000 steps on this row",
        "the template calls itself too often, or the value is nested too deeply",
    }


@pytest.mark.parametrize(
    "source",
    [
        *("{{ '%1000000000d' % 1 }}", "{{ '%*d' % (1000000000, 1) }}", "{{ '%.1000000000f' % 1 }}"),
        *("{{ '%1000000000d' | format(1) }}", "{{ '{:1000000000}'.format(1) }}"),
        "{{ '{:{}}'.format(1, 10 ** 9) }}",
        "{{ '{a:{b}}'.format_map({'a': 1, 'b': 10 ** 9}) }}",
        *("{{ 'x' | center(1000000000) }}", "{{ 'x' | center(10 ** 9) }}"),
        "{{ ['x'] | map('center', 10 ** 9) | list }}",
        *("{{ 'x'.center(10 ** 9) }}", "{{ 'x'.ljust(10 ** 9) }}", "{{ 'x'.rjust(10 ** 9) }}"),
        *("{{ 'x'.zfill(10 ** 9) }}", r"{{ '\t'.expandtabs(10 ** 9) }}"),
        r"{{ 'a\nb' | indent(10 ** 9) }}",
        "{{ 'a b c' | wordwrap(1, wrapstring='x' * 9999999) }}",
        "{{ 'aaa'.translate({97: 'x' * 9999999}) }}",
        *("{{ 'a'.encode() * 10 ** 9 }}", "{{ (1).to_bytes(10 ** 9, 'big') }}"),
        *("{{ 2 | round(10 ** 9, 'ceil') }}", "{{ [1] | slice(10 ** 9) | list }}"),
        "{{ [1] | batch(10 ** 9, 0) | list }}",
        "{{ {'a': 1} | tojson(indent=10 ** 9) }}",
        *(TEXT.replace("%s", "ns.x ~ ns.x"), TEXT.replace("%s", "ns.x + ns.x")),
        TEXT.replace("%s", "[ns.x, ns.x] | join"),
        TEXT.replace("%s", "''.join([ns.x, ns.x])"),
        TEXT.replace("%s", "ns.x | replace('a', 'aa')"),
        TEXT.replace("%s", "ns.x.replace('a', 'aa')"),
        TEXT.replace("%s", "'%s%s' % (ns.x, ns.x)"),
        TEXT.replace("%s", "'{0}{0}'.format(ns.x)"),
        *(LIST.replace("%s", "[ns.x, ns.x]"), LIST.replace("%s", "ns.x + ns.x")),
        LIST.replace("%s", "[ns.x, ns.x] | sum(start=[])"),
        "{% set xs = [1] %}{% for i in range(60) %}{% do xs.extend(xs) %}{% endfor %}{{ xs }}",
        "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{% set xs = [] %}{% do xs.append(xs) %}{{ xs }}",
    ],
)
def test_what_would_be_too_large_is_not_made(source: str) -> None:
    """Widths, repetitions and doublings are told before they fill the memory."""
    assert message_of(source)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ '%5.1f|%-3s|%%' % (1.25, 'a') }}", "  1.2|a  |%"),
        ("{{ '%(a)s%(a)s' % {'a': 1} }}", "11"),
        ("{{ '%s-%s' | format('a', 1) }}", "a-1"),
        ("{{ '%(a)s' | format(a=1) }}", "1"),
        ("{{ '{:>3}{}'.format('a', 1) }}", "  a1"),
        ("{{ '{a}'.format_map({'a': 1}) }}", "1"),
        *(("{{ 7 % 3 }}", 1), ("{{ 1 + 2 }}", 3), ("{{ [1] + [2] }}", [1, 2])),
        ("{{ 'a' ~ 1 ~ none ~ ['b'] }}", "a1None['b']"),
        ("{{ 'x' ~ (sample.c | map('upper')) }}", "x['A', 'B']"),
        ("{{ sample.c | map('first') | map('replace', 'a', 'c') | list }}", ["c", "b"]),
        ("{{ sample.c | map('default', 'x') | map('string') | unique | list }}", ["a", "b"]),
        ("{{ 'a' | center(3) }}", " a "),
        (r"{{ 'a\nb' | indent(2) }}", "a\n  b"),
        ("{{ 'a b' | wordwrap(1) }}", "a\nb"),
        ("{{ sample.c | join(', ') }}", "a, b"),
        ("{{ [{'k': 1}, {'k': 2}] | join('-', attribute='k') }}", "1-2"),
        ("{{ ', '.join(sample.c | map('upper')) }}", "A, B"),
        ("{{ 'aXbX' | replace('X', 'yy', 1) }}", "ayybX"),
        ("{{ [1, 2] | sum }}", 3),
        ("{{ [{'k': 1}] | sum(attribute='k') }}", 1),
        ("{{ 2.345 | round(2, 'floor') }}", 2.34),
        ("{{ [1, 2, 3] | batch(2, 0) | list }}", [[1, 2], [3, 0]]),
        ("{{ [1, 2, 3] | slice(2) | list }}", [[1, 2], [3]]),
        ("{{ 12 | string }}", "12"),
        (
            "{% for x in sample.c %}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %}",
            "1/2False 2/2True ",
        ),
        ("{% for x in sample.c | map('upper') %}{{ loop.revindex }}{{ x }}{% endfor %}", "2A1B"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% else %}none{% endfor %}", "a1"),
        ("{% for x in [] %}{% else %}none{% endfor %}", "none"),
        *(("{{ 2 ** 0.5 }}", 2**0.5), ("{{ 2 ** -1 }}", 0.5), ("{{ 2 ** 10 }}", 1024)),
        *(("{{ 1.5 * 2 }}", 3.0), ("{{ 6 * 7 }}", 42), ("{{ '  a '.strip() }}", "a")),
        *(("{{ 'abc'.strip('ac') }}", "b"), ("{{ ' a ' | trim }}", "a")),
        *(("{{ 'abcab' | trim('ab') }}", "c"), ("{{ 12 | trim }}", "12")),
        ("{{ 'ff' | int(0, 16) }}", 255),
        ("{{ namespace(a=' b ').a | trim }}", "b"),
        ("{% for x in [[1, [2]]] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}", "12"),
    ],
)
def test_honest_templates_do_not_notice_the_limits(source: str, value: object) -> None:
    """Every guarded operator, filter and method yields what Jinja's own does."""
    assert Template.compile(source).evaluate(sample={"c": ["a", "b"]}) == value


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ 9 ** (9 ** 9) }}", "the power 9 ** 387420489 is too large"),
        ("{{ (3 ** 900) ** 900 }}", "the power (a number of 1427 bits) ** 900 is too large"),
        ("{{ sample.x | int(0, 16) }}", "`int`: 5,000 digits are too many"),
        ("{{ 'a' | format(1, b=2) }}", "`format` takes values either by place or by name"),
        (
            "{% for i in range(2500) %}{{ sample.x }}{% endfor %}",
            "the template prints 12,500,000 characters; 10,000,000 are allowed",
        ),
        (f"{{{{ sample.x | regex_replace('{'a' * 2001}') }}}}", LONG_PATTERN),
        ("{{ sample.x | regex_replace('f', sample.x) }}", LONG_TEXT),
    ],
)
def test_the_limit_is_named(source: str, message: str) -> None:
    """With the numbers that went beyond it."""
    assert message_of(source) == message


@pytest.mark.parametrize(
    "source", ["{{ 'y' * 20000 }}", "{{ ['y'] * 20000 }}", "{{ sample.a }}{{ 'y' * 20000 }}"]
)
def test_what_is_made_of_nothing_is_refused(source: str) -> None:
    """Texts, lists and what is printed are in proportion to what the template reads and says."""
    with pytest.raises(RowError, match=r"the template makes [0-9,]+ characters out of"):
        Template.compile(source).evaluate(sample={"a": 1, "not read": "y" * 100_000})


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
    assert Template.compile(source).evaluate(sample={"x": "y" * 1000}) == value


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x" * 2_000_001, "the template has 2,000,001 characters; 2,000,000 are allowed"),
        ("{{ 1" + " + 1" * 10_001 + "}}", "template does not parse: it has more than 20,000 words and signs"),
    ],
    ids=["text", "code"],
)
def test_a_template_of_absurd_length_is_not_read(source: str, message: str) -> None:
    """Neither its text, nor what is code in it."""
    with pytest.raises(SpecError) as caught:
        Template.compile(source)
    assert (caught.value.code, caught.value.message) == ("E112", message)


@pytest.mark.parametrize("pattern", ["(a|a)*$", "(a|aa)+$"])
def test_a_catastrophic_pattern_is_the_rows_trouble(pattern: str) -> None:
    """It is stopped, and the message names it."""
    template = Template.compile(f"{{{{ sample.x | regex_replace('{pattern}', 'x') }}}}")
    with pytest.raises(RowError) as caught:
        template.evaluate(sample={"x": "a" * 5000 + "c"})
    assert caught.value.message == f"`regex_replace`: the pattern {pattern!r} takes too long on this text"
