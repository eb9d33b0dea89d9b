"""Laws of tame templates: those of honest tasks are, and what no honest task needs is not."""

from __future__ import annotations

import pytest

from answerkey.templates.analysis import TAME_FILTERS as FILTERS
from answerkey.templates.analysis import TAME_METHODS as METHODS
from answerkey.templates.analysis import is_tame, parse_template
from answerkey.templates.environment import open_environment
from answerkey.trace import TRACE_METHODS

TAME = [
    "{{ sample.answer }}",
    "{{ sample.options | map(attribute='key') | list }}",
    "{{ (sample.options | map('first') | list)[sample.position] }}",
    "{{ sample.options | selectattr('right', 'equalto', true) | map(attribute='key') | first }}",
    "{{ 'ABCD'[sample.index] }}",
    "{{ sample.text.split(',')[0].strip().upper() }}",
    "{{ sample.choices[1:] | join(', ') }}",
    "{{ sample.meta.items() | list }}",
    "{{ '%s: %s' % (sample.a, sample.b) }}",
    "{{ '-' * 20 }}",
    "{{ sample.text | regex_replace('[0-9]+', '#') }}",
    "{{ sample.cell | fromjson }}",
    "{{ sample.a ~ ' ' ~ sample.b if sample.a is defined else 'none' }}",
    "{% for letter, text in sample.letters | zip(sample.texts) %}{{ letter }}. {{ text }}\n{% endfor %}",
    "{% set letters = ['A', 'B'] %}{% for c in sample.c %}{{ letters[loop.index0] }}{{ c }}{% endfor %}",
    "{% for x in sample.a %}{% for y in x %}{% if loop.first %}{{ y }}{% endif %}{% endfor %}{% endfor %}",
    "{% set t %}{{ sample.a }}{% endset %}{{ t | trim }}",
    "{% for i in range(sample.n) %}{{ i }}{% break %}{% endfor %}",
    "{{ {'a': sample.a, 'b': [sample.b, 'x']} | tojson }}",
]
WILD = [
    "{{ 2 ** sample.n }}",
    "{{ sample.text.center(9) }}",
    "{{ sample.text.format(1) }}",
    "{{ sample.text | center(9) }}",
    "{{ sample.text | attr('upper') }}",
    "{{ sample.text | wordwrap(3) }}",
    "{{ sample.text | pprint }}",
    "{{ sample.list | map(sample.name) | list }}",
    "{{ sample.list | map('map', 'upper') | list }}",
    "{{ sample.list | join(', ', sample.name) }}",
    "{{ sample.list | sort(attribute=sample.name) }}",
    "{{ sample.list | map(attribute=sample.name) | list }}",
    "{{ sample.list | selectattr(sample.name) | list }}",
    "{{ sample.list | map('zip', sample.list) | list }}",
    "{{ sample._id }}x",
    "{{ sample['_id'] }}x",
    "{{ sample.text.__class__ }}",
    "{{ ['__class__'] }}{{ sample.x }}",
    "{{ self }}",
    "{{ dict(a=1) }}",
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
    "{% block b %}{% endblock %}",
    "{% filter upper %}x{% endfilter %}",
    "{% with a = 1 %}{{ a }}{% endwith %}",
    "{% call sample.m() %}{% endcall %}",
    "{{ sample.a }}" * 300,
]


@pytest.mark.parametrize("source", TAME)
def test_what_honest_tasks_need_is_tame(source: str) -> None:
    """Reading, choosing, formatting and going through the row."""
    assert is_tame(parse_template(source, ("sample",)), ("sample",))


@pytest.mark.parametrize("source", WILD)
def test_what_can_grow_or_reach_further_is_not(source: str) -> None:
    """Names from the row, private names, functions, state that is kept, lists in lists, and sheer length."""
    assert not is_tame(parse_template(source, ("sample",)), ("sample",))


def test_every_tame_filter_exists() -> None:
    """What is listed is what there is, so that a name that Jinja drops is noticed."""
    assert set(open_environment().filters) >= FILTERS
    values: tuple[object, ...] = ("", [], {})
    others = METHODS - {"cycle", *TRACE_METHODS}
    assert all(any(hasattr(value, name) for value in values) for name in others)
