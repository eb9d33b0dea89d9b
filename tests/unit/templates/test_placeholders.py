"""Laws of finding `<< config.x >>` in a text."""

from __future__ import annotations

import time

import pytest

from answerkey.templates import find_config_names
from answerkey.templates.config import Standing, find_placeholders, find_whole


@pytest.mark.parametrize("text", ["<< config.x >>", "<<config.x>>", "  <<  config.x\n>>\n", "<<config.x >>"])
def test_a_text_may_be_one_placeholder(text: str) -> None:
    """White space inside and around does not matter."""
    assert find_whole(text) == "x"


@pytest.mark.parametrize(
    "text", ["x", "<< config.x >>a", "<< config.x >><< config.y >>", "<< secrets.x >>", ""]
)
def test_a_text_may_be_more_or_less_than_a_placeholder(text: str) -> None:
    """Anything beside the one placeholder makes a longer text."""
    assert find_whole(text) is None


def test_names_are_found_once_and_in_order() -> None:
    """A key may have hyphens and underscores; a malformed name is found too, for lookup to refuse."""
    text = "<< config.b >> {{ sample.<<config.a-1_x>> }} << config.b >> << config.a | upper >>"
    assert find_config_names(text) == ["b", "a-1_x", "a | upper"]


def test_a_comment_needs_no_config() -> None:
    """A commented-out placeholder may name anything; in a text that is no template there are no comments."""
    assert find_config_names("{# << config.old >> #}<< config.new >>") == ["new"]
    assert find_config_names("{# << config.old >> #}", is_template=False) == ["old"]


@pytest.mark.parametrize(
    ("text", "standing"),
    [
        ("a << config.x >>", Standing.TEXT),
        ("{{ a }}<< config.x >>", Standing.TEXT),
        ("{{ '}}' }}<< config.x >>", Standing.TEXT),
        ("{# {{ #}<< config.x >>", Standing.TEXT),
        ("{% raw %}{{{% endraw %}<< config.x >>", Standing.TEXT),
        ("{%- raw -%}{{ ' {%- endraw -%}<< config.x >>", Standing.TEXT),
        ("{{ {'a': {}}}}<< config.x >>", Standing.TEXT),
        ("{ << config.x >> }", Standing.TEXT),
        ("{% if a %}<< config.x >>{% endif %}", Standing.TEXT),
        ("{{ << config.x >> }}", Standing.CODE),
        ("{{ sample.<< config.x >> }}", Standing.CODE),
        ("{% if << config.x >> %}", Standing.CODE),
        ("{{ {'a': {'b': << config.x >>}} }}", Standing.CODE),
        ("{{ {'a': {}}, << config.x >> }}", Standing.CODE),
        ("{{ 'a' ~ << config.x >> }}", Standing.CODE),
        ("{{ '\\'' ~ << config.x >> }}", Standing.CODE),
        ("{% set a = {'}': '%}'} %}{{ << config.x >> }}", Standing.CODE),
        ("{{ '<< config.x >>' }}", Standing.QUOTED),
        ('{{ "\'<< config.x >>" }}', Standing.QUOTED),
        ("{{ 'a\\'<< config.x >>' }}", Standing.QUOTED),
        ("{% if a == '<< config.x >>' %}", Standing.QUOTED),
        ("{{ '\\<< config.x >>' }}", Standing.QUOTED),
        ("{{ '\\\\<< config.x >>' }}", Standing.QUOTED),
        ("{# << config.x >> #}", Standing.COMMENT),
        ("{# ' << config.x >>", Standing.COMMENT),
        ("{% raw %}<< config.x >>{% endraw %}", Standing.RAW),
        ("{% raw %}{{ '<< config.x >>' }}{% endraw %}", Standing.RAW),
        ("{{ 'open << config.x >>", Standing.QUOTED),
        ("{{ ) << config.x >>", Standing.CODE),
    ],
)
def test_the_scanner_knows_where_a_placeholder_stands(text: str, standing: Standing) -> None:
    """Text, code, quotes, comments and raw blocks are told apart as Jinja does."""
    (spot,) = find_placeholders(text, is_template=True)
    assert spot.standing == standing
    assert text[spot.start : spot.end] == "<< config.x >>"


def test_a_text_that_is_no_template_is_all_text() -> None:
    """Braces mean nothing there."""
    (spot,) = find_placeholders("{{ << config.x >> }}", is_template=False)
    assert spot.standing == Standing.TEXT


def test_blanks_without_end_are_looked_at_once() -> None:
    """What begins like a placeholder and is none takes no longer than other text."""
    started = time.process_time()
    assert find_config_names("<< config." + " " * 300_000) == []
    assert find_config_names("<< config.a" + " b" * 150_000) == []
    assert time.process_time() - started < 20
