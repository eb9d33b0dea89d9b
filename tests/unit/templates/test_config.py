"""Laws of `<< config.x >>`: where it stands is found, and a value goes in as a value, never as
code.
"""

from __future__ import annotations

import time

import pytest

from answerkey.errors import SpecError
from answerkey.templates import (
    ConfigValue,
    Template,
    UnresolvedConfig,
    embed_config,
    find_config_names,
)

TRICKY = [
    *("it's", 'say "hi"', "a\nb", "a\n", " a ", "a\\b", "\\", "}}", "{{ 7*7 }}", "{% if %}"),
    *("{# gone #}", "{", "{{", "%}", "% x", "# x", "#}", "{% endraw %}{{ 7*7 }}", "<< config.y >>"),
    *("'}}{{ 7*7 }}{{'", '"}}{{ 7*7 }}{{"', "\\' }}{{ 7*7 }}", "a\r\nb", "é 🅱️", "", "\\n"),
    "\\x41",
]


def embed(text: str, value: object, *, is_code: bool = False, is_template: bool = True) -> object:
    """Return the text with every placeholder filled with one value."""
    return embed_config(text, lambda _: ConfigValue(value, is_code), is_template=is_template)


def run(text: str, value: object, **row: object) -> object:
    """Return what the filled-in template yields for a row."""
    return Template.compile(embed(text, value)).evaluate(sample=row)


@pytest.mark.parametrize("value", ["A", 3, 0.5, True, None, ["A", "B"], {"a": 1}])
def test_a_whole_value_keeps_its_type(value: object) -> None:
    """A text that is one placeholder becomes the value itself."""
    assert embed("<< config.x >>", value) == value
    assert embed(" <<config.x>>\n", value) == value
    assert type(embed("<< config.x >>", value)) is type(value)


@pytest.mark.parametrize("value", TRICKY)
def test_a_whole_text_is_never_run_as_a_template(value: str) -> None:
    """Delimiters in it print as they are; where no template stands it is the text itself."""
    assert run("<< config.x >>", value) == value
    assert embed("<< config.x >>", value, is_template=False) == value


@pytest.mark.parametrize("value", TRICKY)
@pytest.mark.parametrize(
    ("before", "after"),
    [("a ", " b"), ("{", "{ b"), ("<", "\n"), ("{{ sample.y -}}", "{{- sample.y }}")],
)
def test_text_in_text_is_printed_unchanged(value: str, before: str, after: str) -> None:
    """Whatever stands beside the placeholder, the value is only printed."""
    expected = f"{before}{value}{after}".replace("{{ sample.y -}}", "1").replace(
        "{{- sample.y }}", "1"
    )
    assert run(f"{before}<< config.x >>{after}", value, y=1) == expected.removesuffix("\n")


@pytest.mark.parametrize("value", TRICKY)
@pytest.mark.parametrize("quote", ["'", '"'])
def test_text_in_quotes_stays_in_them(value: str, quote: str) -> None:
    """The value is escaped for the quotation mark around it."""
    assert run(f"{{{{ {quote}a<< config.x >>b{quote} }}}}", value) == f"a{value}b"
    assert run(f"{{{{ {quote}\\<< config.x >>{quote} }}}}", value) == f"\\{value}"
    source = f"{{{{ sample[{quote}<< config.x >>{quote}] }}}}"
    assert run(source, value, **{value: "found"}) == "found"


@pytest.mark.parametrize("value", TRICKY)
def test_text_in_a_raw_block_is_printed_unchanged(value: str) -> None:
    """Even a value that would end the block."""
    assert run("{% raw %}{{ << config.x >> }}{% endraw %}!", value) == f"{{{{ {value} }}}}!"


@pytest.mark.parametrize(
    "value",
    ["answer", "answer key", "answer-key", "1", "a.b", "it's", "{{ 7*7 }}", "items", "class", "ä"],
)
def test_a_column_name_after_a_dot_always_means_that_column(value: str) -> None:
    """What is no identifier becomes bracket access."""
    assert run("{{ sample.<< config.x >> }}", value, **{value: "found"}) == "found"
    assert run("{{ sample . <<config.x>> | upper }}", value, **{value: "found"}) == "FOUND"
    assert run("{{ sample.meta.<< config.x >>[0] }}", value, meta={value: ["found"]}) == "found"
    assert run("{% if sample.<< config.x >> %}yes{% endif %}", value, **{value: "found"}) == "yes"


def test_a_value_can_be_part_of_a_name() -> None:
    """`sample.<< config.x >>_column` and `sample.column_<< config.x >>` are names put together."""
    assert run("{{ sample.<< config.x >>_column }}", "a", a_column=1) == 1
    assert run("{{ sample.column_<< config.x >> }}", "a", column_a=1) == 1
    assert run("{{ sample.column_<< config.x >> }}", 3, column_3=1) == 1
    with pytest.raises(SpecError, match="not a name or number"):
        embed("{{ sample.<< config.x >>_column }}", "a b")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((3, "3"), (-3, "-3"), (0.5, "0.5"), (True, "True"), (None, "None")),
        *((["A", "it's"], "['A', \"it's\"]"), ({"a": None}, "{'a': None}")),
    ],
)
def test_other_values_in_text_are_literals(value: object, text: str) -> None:
    """Numbers as text, booleans, null, lists and mappings as Python and Jinja write them."""
    assert run("a << config.x >> b", value) == f"a {text} b"
    assert run("{{ 'a << config.x >>' }}", value) == f"a {text}"
    assert embed("x = << config.x >>\n", value, is_template=False) == f"x = {text}\n"


@pytest.mark.parametrize(
    "value",
    [
        *(3, -3, 0.5, -0.5, True, False, None),
        ["A", "it's", 'q"', "{{ 7*7 }}", None],
        *({"a b": [1, -2]}, [], {}),
    ],
)
def test_other_values_in_code_are_themselves(value: object) -> None:
    """The expression sees the value with its type."""
    assert run("{{ [<< config.x >>] | first }}", value) == value
    assert run("{{ << config.x >> }}", value) == value


def test_a_negative_number_is_one_value() -> None:
    """A power of it is not the negative of a power."""
    assert run("{{ << config.x >> ** 2 }}", -2) == 4


@pytest.mark.parametrize(
    ("value", "result"),
    [("sample.y", 7), ("sample.m.k", 8), ("3", 3), ("0.5", 0.5), ("1e3", 1000.0), ("true", True)],
)
def test_text_in_code_may_be_a_name_or_a_number(value: str, result: object) -> None:
    """Identifiers, dotted paths and numbers are written as they are."""
    assert run("{{ << config.x >> }}", value, y=7, m={"k": 8}) == result


@pytest.mark.parametrize(
    "value",
    ["answer key", "it's", "a }} b", "7*7", "sample['x']", "007", "", "a.", "x | upper", "f()"],
)
def test_any_other_text_in_code_is_refused(value: str) -> None:
    """A value is not code; the hint says how to write it."""
    with pytest.raises(SpecError) as caught:
        embed("a\n{{ << config.x >> }}", value)
    error = caught.value
    assert error.code == "E111"
    why = "which is not a name or number and cannot be put into Jinja code"
    assert error.message == f"config value `x` is {value!r}, {why}"
    assert (
        error.hint == "put it in quotes (`'<< config.x >>'`), or declare the parameter with "
        "`string_kind: jinja`"
    )
    assert error.where is not None
    assert error.where.line == 2


def test_code_is_inserted_unchanged() -> None:
    """A parameter declared `string_kind: jinja` or `python` is code, except inside quotes."""
    assert embed("<< config.x >>", "{{ sample.a }}", is_code=True) == "{{ sample.a }}"
    assert embed("a << config.x >>", "{{ sample.a }}", is_code=True) == "a {{ sample.a }}"
    code = embed("{{ << config.x >> }}", "sample.a | upper", is_code=True)
    assert code == "{{ sample.a | upper }}"
    assert embed("{{ '<< config.x >>' }}", "it's", is_code=True) == "{{ 'it\\'s' }}"
    assert (
        embed("def f():\n    << config.x >>\n", "return 1", is_code=True, is_template=False)
        == "def f():\n    return 1\n"
    )


def test_a_comment_is_left_without_its_placeholder() -> None:
    """No value is looked up for it."""

    def refuse(name: str) -> ConfigValue:
        raise AssertionError(name)

    assert embed_config("{# << config.x >> #}a", refuse, is_template=True) == "{#  #}a"


def test_config_is_filled_in_once() -> None:
    """A value that looks like a placeholder is text.

    In code it is an error when the template is compiled.
    """
    assert run("a << config.x >>", "<< config.x >>") == "a << config.x >>"
    assert embed("a << config.x >>", "<< config.x >>", is_template=False) == "a << config.x >>"
    with pytest.raises(UnresolvedConfig):
        Template.compile(embed("a << config.x >>", "<< config.y >>", is_code=True))


def test_an_unknown_name_raises_the_error_of_lookup() -> None:
    """The error of the caller reaches the caller."""

    def refuse(name: str) -> ConfigValue:
        raise SpecError("E110", f"`{name}` is not in `config_spec`")

    with pytest.raises(SpecError, match="`col` is not in"):
        embed_config("{{ sample.<< config.col >> }}", refuse, is_template=True)


def test_names_are_found_once_and_in_order() -> None:
    """A key may have hyphens and underscores.

    A malformed name is found too, for lookup to refuse.
    """
    text = "<< config.b >> {{ sample.<<config.a-1_x>> }} << config.b >> << config.a | upper >>"
    assert find_config_names(text) == ["b", "a-1_x", "a | upper"]


def test_a_comment_needs_no_config() -> None:
    """A commented-out placeholder may name anything."""
    assert find_config_names("{# << config.old >> #}<< config.new >>") == ["new"]


def test_text_without_a_template_is_plain_text() -> None:
    """Braces mean nothing there."""
    text = embed_config("{{ << config.x >> }}", lambda _: ConfigValue("{{"), is_template=False)
    assert text == "{{ {{ }}"


def test_blanks_without_end_are_looked_at_once() -> None:
    """What begins like a placeholder and is none takes no longer than other text."""
    started = time.process_time()
    assert find_config_names("<< config." + " " * 300_000) == []
    assert find_config_names("<< config.a" + " b" * 150_000) == []
    assert time.process_time() - started < 20
