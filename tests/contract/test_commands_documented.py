"""Every command and every option of the code is in the docs, with an example that the code
understands.
"""

from __future__ import annotations

import re

import click
import pytest

from answerkey.cli import app

from .scripts import read

PAGE = read("docs/reference/commands.md")
COMMON = ("--json", "--verbose", "-v", "--quiet", "-q", "--help", "-h", "--version")


def read_sections() -> dict[str, str]:
    """Return command → the text below its heading."""
    _, *parts = re.split(r"^## answerkey (.+)$", PAGE, flags=re.MULTILINE)
    texts = [text.partition("\n## ")[0] for text in parts[1::2]]
    return dict(zip(parts[::2], texts, strict=True))


def list_options(name: str) -> list[str]:
    """Return the names of a command's options, short forms included."""
    options = [option for option in load_command(name).params if isinstance(option, click.Option)]
    return [form for option in options for form in (*option.opts, *option.secondary_opts)]


def load_command(name: str) -> click.Command:
    """Return the command as the code has it."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return command


def test_the_page_has_every_command_and_no_other() -> None:
    """The headings are the commands, in the order of `--help` within their groups."""
    assert sorted(read_sections()) == sorted(app.commands)


@pytest.mark.parametrize("name", app.commands)
def test_every_option_is_in_the_section_of_its_command(name: str) -> None:
    """No option is undocumented, short forms included."""
    names = set(list_options(name)) - set(COMMON)
    assert [form for form in names if f"`{form}" not in read_sections()[name]] == []


@pytest.mark.parametrize("name", app.commands)
def test_no_section_invents_an_option(name: str) -> None:
    """Each option that a section shows in code is an option of some command."""
    options = {form for command in app.commands for form in list_options(command)}
    assert set(re.findall(r"`(--[a-z0-9-]+)", read_sections()[name])) <= options | set(COMMON)


@pytest.mark.parametrize("option", COMMON)
def test_the_options_of_all_commands_are_in_the_introduction(option: str) -> None:
    """What is understood everywhere is said once, at the top."""
    assert f"`{option}`" in PAGE.split("\n## ")[0]


@pytest.mark.parametrize("name", app.commands)
def test_every_section_and_every_help_has_an_example(name: str) -> None:
    """A command line to copy; those of the page are run by `test_documents.py`."""
    assert re.search(rf"^answerkey {name}\b", read_sections()[name], re.MULTILINE)
    assert f"answerkey {name}" in (load_command(name).epilog or "")
