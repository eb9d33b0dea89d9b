"""Laws of `answerkey view`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def start(*words: object) -> subprocess.Popen[str]:
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "answerkey", "view", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Press Ctrl-C, and return the exit code and what was still said."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_the_address_is_printed_and_ctrl_c_ends_it(run_folder: Path) -> None:
    """Stdout has the address and nothing else; the page is there; ending it is no failure."""
    with start(run_folder) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(url, timeout=300) as answer:  # noqa: S310 - the address that was printed
            assert answer.status == 200
        code, out, err = end(process)
    assert (code, out) == (0, "")
    assert err == "Ctrl-C ends it\nended\n"
    assert url.startswith("http://127.0.0.1:")


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_json_has_the_address(run_folder: Path) -> None:
    """One object, for programs that open the page."""
    with start(run_folder.parent, "--json", "-q", "--port", 0) as process:
        assert process.stdout is not None
        lines = ""
        while not lines.endswith("}\n}\n"):
            lines += process.stdout.readline()
        code, out, err = end(process)
    told = json.loads(lines)["view"]
    assert (code, out, err) == (0, "", "")
    assert told["url"].startswith(f"http://127.0.0.1:{told['port']}/?token=")
    assert told["folder"] == str(run_folder.parent)


def test_without_runs_it_says_what_to_name(call: Call) -> None:
    """E501 when there is no folder `runs`, and for one that is not there."""
    for words in ((), ("nowhere",)):
        refused = call("view", *words)
        assert refused.code == 2
        assert refused.err.startswith("error[E501]: ")


def test_other_machines_need_a_second_word(call: Call, run_folder: Path) -> None:
    """`--host` alone is refused, with what to use instead."""
    refused = call("view", run_folder, "--host", "0.0.0.0")  # noqa: S104 - it is refused
    assert refused.code == 2
    assert refused.err == (
        "error[E119]: `--host 0.0.0.0` would show your runs to other machines\n"
        "  = help: `--allow-network` says that this is meant; `ssh -L` needs neither\n"
    )


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_is_a_number_of_a_port(call: Call, run_folder: Path, port: str) -> None:
    """E119 for anything else."""
    assert call("view", run_folder, "--port", port, "--json").json["error"]["code"] == "E119"
