"""Every command and every option of the code is in the docs, with an example that the code
understands.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from answerkey.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text(
    encoding="utf-8"
)
COMMON = ("--json", "--verbose", "-v", "--quiet", "-q", "--help", "-h", "--version")


def read_sections() -> dict[str, str]:
    """Return command → the text below its heading."""
    _, *parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def load_command(name: str) -> click.Command:
    """Return the command as the code has it."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return command


def test_the_page_has_every_command_and_no_other() -> None:
    """The headings are the commands, in the order of `--help` within their groups."""
    titles = [
        title.removeprefix("answerkey ")
        for title in read_sections()
        if title.startswith("answerkey ")
    ]
    assert sorted(titles) == sorted(app.commands)


@pytest.mark.parametrize("name", app.commands)
def test_every_option_is_in_the_section_of_its_command(name: str) -> None:
    """No option is undocumented, short forms included."""
    section = read_sections()[f"answerkey {name}"]
    options = [
        parameter for parameter in load_command(name).params if isinstance(parameter, click.Option)
    ]
    forms = [form for option in options for form in (*option.opts, *option.secondary_opts)]
    names = [form for form in forms if form not in COMMON]
    assert [form for form in names if f"`{form}" not in section] == []


@pytest.mark.parametrize("name", app.commands)
def test_no_section_invents_an_option(name: str) -> None:
    """Each option that a section shows in code is an option of some command."""
    options = [parameter for command in app.commands for parameter in load_command(command).params]
    forms = {form for option in options for form in (*option.opts, *option.secondary_opts)}
    shown = set(re.findall(r"`(--[a-z0-9-]+)", read_sections()[f"answerkey {name}"]))
    assert shown <= forms | set(COMMON)


@pytest.mark.parametrize("option", COMMON)
def test_the_options_of_all_commands_are_in_the_introduction(option: str) -> None:
    """What is understood everywhere is said once, at the top."""
    assert f"`{option}`" in PAGE.split("\n## ")[0]


@pytest.mark.parametrize("name", app.commands)
def test_every_example_parses(name: str) -> None:
    """The command lines of a section are ones that its command accepts."""
    lines = re.findall(
        rf"^answerkey {name}\b(.*)$", read_sections()[f"answerkey {name}"], flags=re.MULTILINE
    )
    assert lines
    # A command remembers the names of its help option, which it has from the command above it.
    above = click.Context(app, **app.context_settings)
    for line in lines:
        words = shlex.split(line.split(" > ")[0])
        load_command(name).make_context(name, words, parent=above, resilient_parsing=False)


@pytest.mark.parametrize("name", app.commands)
def test_every_help_has_an_example(name: str) -> None:
    """`-h` ends with a command line to copy."""
    assert f"answerkey {name}" in (load_command(name).epilog or "")
