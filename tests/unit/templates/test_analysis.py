"""Laws of what a template reads, and of bounded templates: those of honest tasks are."""

from __future__ import annotations

import pytest
from tests.samples import read_cases

from answerkey.errors import SpecError
from answerkey.templates import RowError, Template
from answerkey.templates.environment import BOUNDED_FILTERS as FILTERS
from answerkey.templates.environment import BOUNDED_METHODS as METHODS
from answerkey.templates.environment import is_bounded, open_environment, parse_template
from answerkey.trace import TRACE_METHODS

CASES = read_cases(__file__)


@pytest.mark.parametrize(("source", "reads"), CASES["paths"])
def test_a_template_knows_which_paths_decide_its_value(source: str, reads: tuple[str, ...]) -> None:
    """A method reads its owner; every name has its own paths."""
    template = Template.compile(source, names=("sample", "scores"))
    paths = [(".".join(map(str, path)) or "sample") for path in template.paths_from("sample")]
    paths += [".".join(map(str, ("scores", *path))) for path in template.paths_from("scores")]
    assert set(reads) <= set(paths)


BOUNDED = CASES["bounded"]


@pytest.mark.parametrize("source", [*BOUNDED, *[*CASES["unbounded"], "{{ sample.a }}" * 300]])
def test_what_honest_tasks_need_is_bounded_and_nothing_else(source: str) -> None:
    """Reading, choosing, formatting and going through the row.

    Names from the row, private names, functions, state that is kept, lists in lists, and sheer
    length can grow or reach further.
    """
    assert is_bounded(parse_template(source, ("sample",)), ("sample",)) is (source in BOUNDED)


def test_every_bounded_filter_exists() -> None:
    """What is listed is what there is, so that a name that Jinja drops is noticed."""
    assert set(open_environment().filters) >= FILTERS
    values: tuple[object, ...] = ("", [], {})
    methods = METHODS - {"cycle", *TRACE_METHODS}
    assert all(any(hasattr(value, name) for value in values) for name in methods)


TAKEN = "{% if sample.meta.a is defined %}"


@pytest.mark.parametrize("template", CASES["set_names"])
def test_a_name_may_be_set_in_any_branch(template: str) -> None:
    """What a branch of an `if` sets is known after it.

    The template is the valid Jinja that it is.
    """
    assert Template.compile(template).render(sample={"meta": {"a": 1}})


@pytest.mark.parametrize(("template", "name"), CASES["unset_names"])
def test_a_name_that_is_never_set_is_refused(template: str, name: str) -> None:
    """Before it is set, in another branch, and after the block that it belongs to, there is no such
    name.
    """
    with pytest.raises(SpecError) as caught:
        Template.compile(template)
    message = f"`{name}` is not defined in this template"
    assert (caught.value.code, caught.value.message) == ("E112", message)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(
    "template",
    [
        TAKEN + "{% set x = 1 %}{% else %}{{ x }}{% endif %}",
        TAKEN + "{% set x = 1 %}{% elif x %}2{% endif %}",
    ],
)
def test_a_name_that_another_branch_sets_is_the_rows_error(template: str) -> None:
    """Which branch sets it, the row decides."""
    with pytest.raises(RowError) as caught:
        Template.compile(template).render(sample={"meta": {}})
    assert caught.value.message == "`x` is not defined in this row"
