from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from answerkey._version import __version__
from answerkey.cli import command_names

Call = Callable[..., Any]


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_the_commands_there_are(call: Call, option: str) -> None:
    """Every working command is listed; one that is not in this release is not."""
    shown = call(option)
    assert shown.code == 0
    listed = [line.split()[0] for line in shown.out.splitlines() if line.startswith("  ") and line.strip()]
    assert set(command_names()) <= set(listed)


def test_the_version_is_printed(call: Call) -> None:
    """`--version` names the program and its version."""
    assert call("--version").out == f"answerkey {__version__}\n"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("rnu",), "there is no command `rnu`", "did you mean `run`?"),
        (("xyzzy",), "there is no command `xyzzy`", "commands: run, score, resume"),
        (("run", "f", "--modle", "x"), "No such option '--modle'", "did you mean `--model`?"),
        (("run",), "Missing argument 'FILE'", "`answerkey run --help` shows what there is"),
        (("run", "f", "--num-samples", "0"), "Invalid value for '--num-samples'", "`answerkey run --help`"),
        (
            ("run", "f", "--config", "k"),
            "`--config k` is not of the form `name=value`",
            "write `--config k=4`",
        ),
    ],
)
def test_a_mistyped_command_line_is_explained(
    call: Call, words: tuple[str, ...], message: str, hint: str
) -> None:
    """It is E119 with exit code 2, in the shape of every other error, with what was probably meant."""
    refused = call(*words)
    assert refused.code == 2
    assert refused.out == ""
    assert f"error[E119]: {message}" in refused.err
    assert f"  = help: {hint}" in refused.err


def test_errors_are_json_when_json_is_asked_for(call: Call) -> None:
    """Stdout holds one object with the error, also when the command line itself is wrong."""
    assert call("run", "--json").json["error"]["code"] == "E119"
    assert call("tasks", "x", "--json").json["error"]["code"] == "E113"
    assert call("show", "nowhere", "--json").json["error"]["code"] == "E501"


@pytest.mark.parametrize("words", [("-q", "runs"), ("runs", "-q"), ("runs", "--quiet")])
def test_quiet_is_understood_before_and_after_the_command(call: Call, words: tuple[str, ...]) -> None:
    """With `-q` nothing is said."""
    assert call(*words).err == ""
    assert call("runs").err == "no runs here yet; `answerkey demo` makes one\n"


RUN = Path(__file__).parents[2] / "compat" / "kept" / "runs" / "live"
UNUSED = {
    "jinja2",
    "ruamel",
    "aiohttp",
    *(f"answerkey.{one}" for one in ("spec", "templates", "scorers", "models.client")),
}


@pytest.mark.parametrize(
    ("commands", "unused"),
    [
        ([["--help"], ["run", "--help"]], {"polars", "pydantic", "ruamel", "jinja2", "rich"}),
        ([["-q", "show", str(RUN)], ["show", str(RUN), "--json"], ["runs", str(RUN.parent)]], UNUSED),
    ],
    ids=["help", "show"],
)
def test_no_more_is_loaded_than_a_command_needs(commands: list[list[str]], unused: set[str]) -> None:
    """Help needs no library for tables or YAML; showing a run needs no model and no template engine."""
    script = (
        f"import sys; from answerkey.cli import main; [main(words) for words in {commands!r}];"
        f"loaded = sorted({unused!r} & set(sys.modules)); sys.exit(str(loaded) if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
