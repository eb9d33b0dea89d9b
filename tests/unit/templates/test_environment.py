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
from tests.samples import read_cases

from answerkey.errors import SpecError
from answerkey.templates import FilterOp, RowError, Template
from answerkey.templates.filters import FILTERS, JOIN_TEXT, LOOP_STEPS

pytestmark = pytest.mark.usefixtures("everywhere")

CASES = read_cases(__file__)
LONG_LOOP = (
    "{% set t %}{% for i in range(99999) %}" + "y" * 1000 + "{% endfor %}{% endset %}{{ t }}"
)
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
    [*CASES["usable"], ("{{ sample.x | tojson }}", {"x": dt.date(2026, 1, 2)}, '"2026-01-02"')],
)
def test_what_templates_may_use(source: str, row: dict[str, object], value: object) -> None:
    """Their own lists, and the filters that they have beside Jinja's own."""
    assert evaluate(source, **row) == value


@pytest.mark.parametrize(
    ("source", "row", "message"),
    [
        *CASES["row_errors"],
        (
            "{{ sample.x | tojson }}",
            {"x": math.nan},
            "Out of range float values are not JSON compliant",
        ),
    ],
)
def test_what_is_refused_is_named(source: str, row: dict[str, object], message: str) -> None:
    """It is the error of the row."""
    assert message_of(source, **row).startswith(message)


@pytest.mark.parametrize(("source", "refusal"), CASES["forbidden_calls"])
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


@pytest.mark.parametrize(("arguments", "text"), CASES["regex_replace"])
def test_regex_replace_takes_all_of_its_arguments(arguments: str, text: str) -> None:
    """Flags are off and every match is replaced, unless said otherwise."""
    assert evaluate(f"{{{{ sample.x | regex_replace({arguments}) }}}}", x="abc\naBC\nabc") == text


@pytest.mark.parametrize(
    "name", [*sorted(FILTERS.keys() - {"int", "join", LOOP_STEPS, JOIN_TEXT}), *get_args(FilterOp)]
)
def test_every_filter_is_on_its_page(name: str) -> None:
    """The reference page names each filter of templates and each op of row filters."""
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{name}`" in text or f"`{name}(" in text


@pytest.mark.parametrize("source", [*CASES["too_many_steps"], LONG_LOOP])
def test_a_row_has_a_number_of_steps(source: str) -> None:
    """Loops, calls and printed text are counted together, however they are nested."""
    assert message_of(source, x="f" * 5000) in {
        "the template takes more than 1,000,000 steps on this row",
        "the template calls itself too often, or the value is nested too deeply",
    }


@pytest.mark.parametrize("source", CASES["too_large"])
def test_what_would_be_too_large_is_not_made(source: str) -> None:
    """Repetitions and doublings are told before they fill the memory."""
    assert message_of(source, x="f" * 5000)


@pytest.mark.parametrize(("source", "value"), CASES["honest"])
def test_honest_templates_do_not_notice_the_limits(source: str, value: object) -> None:
    """Every guarded operator, filter and method yields what Jinja's own does."""
    assert evaluate(source, c=["a", "b"]) == value


@pytest.mark.parametrize(("source", "message"), CASES["named_limits"])
def test_the_limit_is_named(source: str, message: str) -> None:
    """With the numbers that went beyond it."""
    assert message_of(source, x="f" * 5000) == message


@pytest.mark.parametrize("source", CASES["out_of_proportion"])
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
            "template does not parse: it has more than 20,000 tokens",
        ),
    ],
    ids=["text", "code"],
)
def test_a_template_of_absurd_length_is_not_read(source: str, message: str) -> None:
    """Neither its text, nor what is code in it."""
    with pytest.raises(SpecError) as caught:
        Template.compile(source)
    assert (caught.value.code, caught.value.message) == ("E112", message)
