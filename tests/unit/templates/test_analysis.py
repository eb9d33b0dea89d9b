"""Laws of what a template reads, and of bounded templates: those of honest tasks are."""

from __future__ import annotations

import pytest

from answerkey.errors import SpecError
from answerkey.templates import RowError, Template
from answerkey.templates.environment import BOUNDED_FILTERS as FILTERS
from answerkey.templates.environment import BOUNDED_METHODS as METHODS
from answerkey.templates.environment import is_bounded, open_environment, parse_template
from answerkey.trace import TRACE_METHODS


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        *(("x", ()), ("{{ sample.a }}", ("a",)), ("{{ sample['a b'].c[0][-1] }}", ("a b.c.0",))),
        ("{{ sample.a.b }}{{ sample.a.c }}", ("a.b", "a.c")),
        ("{{ sample.a.b }}{{ sample.a }}", ("a",)),
        ("{{ sample.a.b.strip() }}", ("a.b",)),
        ("{{ sample.a[sample.b] }}", ("a", "b")),
        ("{{ sample.a[1:sample.b] }}", ("a", "b")),
        ("{{ sample.a[-sample.b] }}", ("a", "b")),
        *(("{{ sample.a[-1.0] }}", ("a",)), ("{{ sample[0] }}", ("0",))),
        *(("{{ sample[sample.a] }}", ("sample",)), ("{{ sample.items() }}", ("sample",))),
        ("{% for k in sample %}{{ sample.a }}{% endfor %}", ("sample",)),
        ("{% for x in sample.a if x != sample.b.c %}{{ x }}{% endfor %}", ("a", "b.c")),
        ("{% set y = sample.a %}{{ y.b }}", ("a",)),
        ("{% macro m(x) %}{{ x.b }}{% endmacro %}{{ m(sample.a) }}", ("a",)),
        *(("{{ sample.a ~ scores.s.v }}", ("a", "scores.s.v")), ("{{ scores }}", ("scores",))),
    ],
)
def test_a_template_knows_the_paths_that_decide_its_value(
    source: str, reads: tuple[str, ...]
) -> None:
    """A method reads its owner; every name has its own paths."""
    template = Template.compile(source, names=("sample", "scores"))
    paths = [(".".join(map(str, path)) or "sample") for path in template.paths_from("sample")]
    paths += [".".join(map(str, ("scores", *path))) for path in template.paths_from("scores")]
    assert set(reads) <= set(paths)


BOUNDED = [
    "{{ sample.answer }}",
    "{{ sample.options | map(attribute='key') | list }}",
    "{{ (sample.options | map('first') | list)[sample.position] }}",
    "{{ 'ABCD'[sample.index] }}",
    "{{ sample.text.split(',')[0].strip().upper() }}",
    "{{ sample.choices[1:] | join(', ') }}",
    "{{ sample.meta.items() | list }}",
    "{{ sample.cell | fromjson }}",
    "{{ sample.a ~ ' ' ~ sample.b if sample.a is defined else 'none' }}",
    (
        "{% for letter, text in sample.letters | zip(sample.texts) %}{{ letter }}. {{ text "
        "}}\n{% endfor %}"
    ),
    (
        "{% for x in sample.a %}{% for y in x %}{% if loop.first %}{{ y }}{% endif %}{% "
        "endfor %}{% endfor %}"
    ),
    "{% for i in range(sample.n) %}{{ i }}{% break %}{% endfor %}",
    "{{ {'a': sample.a, 'b': [sample.b, 'x']} | tojson }}",
]

UNBOUNDED = [
    "{{ sample.text | regex_replace('[0-9]+', '#') }}",
    *("{{ 2 ** sample.n }}", "{{ sample.text.center(9) }}", "{{ sample.text.format(1) }}"),
    *("{{ sample.text | center(9) }}", "{{ sample.text | attr('upper') }}"),
    *("{{ sample.text | wordwrap(3) }}", "{{ sample.text | pprint }}"),
    "{{ sample.list | map(sample.name) | list }}",
    "{{ sample.list | map('map', 'upper') | list }}",
    "{{ sample.list | join(', ', sample.name) }}",
    "{{ sample.list | sort | list }}",
    "{{ sample.list | map(attribute=sample.name) | list }}",
    "{{ sample.list | map('zip', sample.list) | list }}",
    *("{{ sample._id }}x", "{{ sample['_id'] }}x", "{{ sample.text.__class__ }}"),
    *("{{ ['__class__'] }}{{ sample.x }}", "{{ self }}", "{{ dict(a=1) }}"),
    "{{ range(*sample.list) | list }}",
    "{{ sample.list | join(**sample.meta) }}",
    "{% set ns = namespace(x=1) %}{{ ns.x }}",
    "{% do sample.list.append(1) %}",
    "{% macro m() %}{% endmacro %}{{ m() }}",
    "{% for x in sample.tree recursive %}{{ loop(x) }}{% endfor %}",
    "{% for a in sample.x %}{% for b in a %}{% for c in b %}{% for d in c %}x" + "{% endfor %}" * 4,
    "{% set a = [sample.x] %}{% set a = [a, a] %}{{ a }}",
    "{% set a = sample.x %}{% set a = a | zip(a) %}{{ a }}",
    "{% for x in sample.a %}{{ [x, x] == sample.a }}{% endfor %}",
    *("{% block b %}{% endblock %}", "{% filter upper %}x{% endfilter %}"),
    "{% with a = 1 %}{{ a }}{% endwith %}",
    *("{% call sample.m() %}{% endcall %}", "{{ sample.a }}" * 300),
]


@pytest.mark.parametrize("source", [*BOUNDED, *UNBOUNDED])
def test_what_honest_tasks_need_is_bounded_and_nothing_else(source: str) -> None:
    """Reading, choosing, formatting and going through the row.

    Names from the row, private names, functions, state that is kept, lists in lists, and sheer
    length can grow or reach further.
    """
    tree = parse_template(source, ("sample",))
    assert is_bounded(tree, ("sample",)) is (source in BOUNDED)


def test_every_bounded_filter_exists() -> None:
    """What is listed is what there is, so that a name that Jinja drops is noticed."""
    assert set(open_environment().filters) >= FILTERS
    values: tuple[object, ...] = ("", [], {})
    others = METHODS - {"cycle", *TRACE_METHODS}
    assert all(any(hasattr(value, name) for value in values) for name in others)


TAKEN = "{% if sample.meta.a is defined %}"


@pytest.mark.parametrize(
    "template",
    [
        TAKEN + "{% set x = 'A' %}{% else %}{% set x = 'B' %}{% endif %}{{ x }}",
        TAKEN
        + "{% set x = 'A' %}{% elif sample.meta.b is defined %}{% set x = 'B' %}{% endif %}{{ x }}",
        "{% set x = 'B' %}" + TAKEN + "{% set x = 'A' %}{% endif %}{{ x }}",
        TAKEN
        + "{% set x %}A{% endset %}{% else %}{% set x | upper %}a{% endset %}{% endif %}{{ x }}",
        TAKEN + "{% set x, (y, z) = 1, (2, 3) %}{% else %}{% set x, y, z = 1, 2, 3 %}{% endif "
        "%}{{ x + z }}",
        TAKEN + "{% set x = 'A' %}{% endif %}{% if x is defined %}{{ x }}{% else %}B{% endif %}",
        TAKEN + "{% set x = 'A' %}{% endif %}{{ x | default('B') }}",
        TAKEN + "{% macro m(q) %}{{ q }}{% endmacro %}{{ m('A') }}{% else %}B{% endif %}",
        TAKEN + "{% set n = namespace(x=1) %}{% else %}{% set n = namespace(x=2) %}{% endif %}"
        "{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}",
        (
            "{% for i in [1] %}{% if i %}{% set x = i %}{% else %}{% set x = 2 %}{% endif "
            "%}{{ x }}{% endfor %}"
        ),
        "{% for i in [] %}{{ i }}{{ loop.index }}{% else %}{% set x = 'A' %}{{ x }}{% endfor %}",
        "{% with q = 'A' %}"
        + TAKEN
        + "{% set x = q %}{% else %}{% set x = q %}{% endif %}{{ x }}{% endwith %}",
        "{% filter upper %}"
        + TAKEN
        + "{% set x = 'a' %}{% else %}{% set x = 'b' %}{% endif %}{{ x }}{% endfilter %}",
        "{% macro m(q, r=q) %}{{ q }}{{ r }}{{ caller() }}{% endmacro %}"
        "{% call m('A') %}" + TAKEN + "{% set x = 1 %}{% endif %}{{ x | default(2) }}{% endcall %}",
        "{% autoescape false %}"
        + TAKEN
        + "{% set x = 1 %}{% endif %}{{ x | default(2) }}{% endautoescape %}",
        TAKEN + "{% set x = 1 %}{% endif %}{% block b %}{{ x | default(2) }}{% endblock %}",
    ],
)
def test_a_name_may_be_set_in_any_branch(template: str) -> None:
    """What a branch of an `if` sets is known after it.

    The template is the valid Jinja that it is.
    """
    assert Template.compile(template).render(sample={"meta": {"a": 1}})


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{{ x }}{% set x = 1 %}", "x"),
        ("{% set x = x %}{{ x }}", "x"),
        (TAKEN + "{% set x = 1 %}{% endif %}{{ x }}{{ y }}", "y"),
        ("{% for i in [1] %}{% set x = i %}{% endfor %}{{ x }}", "x"),
        ("{% for i in [1] %}{{ i }}{% else %}{{ i }}{% endfor %}", "i"),
        ("{% for i in [1] %}{{ loop.index }}{% endfor %}{{ loop.index }}", "loop"),
        ("{% with q = 1 %}{{ q }}{% endwith %}{{ q }}", "q"),
        ("{% macro m(q) %}{{ q }}{% endmacro %}{{ m(1) }}{{ q }}", "q"),
        ("{% filter upper %}{% set q = 1 %}{% endfilter %}{{ q }}", "q"),
        ("{% set x %}{% set q = 1 %}{% endset %}{{ x }}{{ q }}", "q"),
        ("{% if q %}{% set n.x = 1 %}{% endif %}", "q"),
        ("{% set n.x = 1 %}", "n"),
        ("{{ unknown | default('A') }}", "unknown"),
    ],
)
def test_a_name_that_is_never_set_is_refused(template: str, name: str) -> None:
    """Before it is set, in another branch, and after the block that it belongs to, there is no such
    name.
    """
    with pytest.raises(SpecError) as caught:
        Template.compile(template)
    assert (caught.value.code, caught.value.message) == (
        "E112",
        f"`{name}` is not defined in this template",
    )


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
