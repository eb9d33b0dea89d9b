"""Laws of what a template reads."""

from __future__ import annotations

import pytest

from answerkey.errors import SpecError
from answerkey.templates.analysis import find_reads, parse_template


def read(source: str) -> dict[str, set[tuple[str | int, ...]]]:
    """Return the keys of the paths that a template reads, by name."""
    names = ("sample", "scores")
    reads = find_reads(parse_template(source, names), names)
    return {name: {tuple(step.key for step in path) for path in paths} for name, paths in reads.items()}


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ("x", None),
        ("{{ sample.a }}", {("a",)}),
        ("{{ sample['a b'].c[0][-1] }}", {("a b", "c", 0, -1)}),
        ("{{ sample.a.b }}{{ sample.a.c }}", {("a", "b"), ("a", "c")}),
        ("{{ sample.a.b }}{{ sample.a }}", {("a",)}),
        ("{{ sample.a.b.strip() }}", {("a", "b")}),
        ("{{ sample.a[sample.b] }}", {("a",), ("b",)}),
        ("{{ sample.a[1:sample.b] }}", {("a",), ("b",)}),
        ("{{ sample.a[-sample.b] }}", {("a",), ("b",)}),
        ("{{ sample.a[-1.0] }}", {("a",)}),
        ("{{ sample[0] }}", {(0,)}),
        ("{{ sample[sample.a] }}", {()}),
        ("{{ sample.items() }}", {()}),
        ("{% for k in sample %}{{ sample.a }}{% endfor %}", {()}),
        ("{% for x in sample.a if x != sample.b.c %}{{ x }}{% endfor %}", {("a",), ("b", "c")}),
        ("{% set y = sample.a %}{{ y.b }}", {("a",)}),
        ("{% macro m(x) %}{{ x.b }}{% endmacro %}{{ m(sample.a) }}", {("a",)}),
    ],
)
def test_a_template_reads_the_shortest_paths_that_decide_its_value(
    source: str, paths: set[tuple[str | int, ...]] | None
) -> None:
    """A whole value makes its parts superfluous; a method reads its owner."""
    assert read(source) == ({} if paths is None else {"sample": paths})


def test_every_name_has_its_own_paths() -> None:
    """Names that are not read are left out."""
    assert read("{{ sample.a ~ scores.s.v }}") == {"sample": {("a",)}, "scores": {("s", "v")}}
    assert read("{{ scores }}") == {"scores": {()}}


def test_the_hint_for_a_hyphen_looks_at_every_difference() -> None:
    """An honest one before it is passed over."""
    with pytest.raises(SpecError) as caught:
        parse_template("{{ 2 - 1 }}{{ sample.page-count }}", ("sample",))
    assert caught.value.hint == "a column with a hyphen is reached as `sample['page-count']`; names: `sample`"
