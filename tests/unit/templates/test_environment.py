"""Laws of the sandbox: what a template may reach and call."""

from __future__ import annotations

import pytest

from answerkey.templates import RowTrouble, Template

pytestmark = pytest.mark.usefixtures("everywhere")


def message_of(source: str, **sample: object) -> str:
    """Return the message of a template's trouble with a row."""
    with pytest.raises(RowTrouble) as caught:
        Template.compile(source).evaluate(sample=sample)
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
        ("{{ namespace() }}", "Jinja's `Namespace`"),
        ("{{ (-8) ** 0.5 }}", "a complex"),
    ],
)
def test_what_is_no_value_is_not_handed_on(source: str, what: str) -> None:
    """A function, one of Jinja's own things and what no cell can hold are the row's trouble."""
    assert message_of(source) == f"the template yields {what}, which is no value"
