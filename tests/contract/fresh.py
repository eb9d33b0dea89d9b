"""A fresh virtual environment, as a user has it who installs answerkey for the first time."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: In the long series packages come from the package index; otherwise those of this environment are
#: lent.
INSTALLS = bool(os.environ.get("ANSWERKEY_LONG"))
SECONDS = 1800


@dataclass(frozen=True)
class Fresh:
    """A virtual environment, and a home of its own."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Fresh:
        """Make the environment.

        Unless packages are installed, lend it those of this one except answerkey.
        """
        options = [] if INSTALLS else ["--without-pip"]
        command = [sys.executable, "-m", "venv", *options, str(folder / "venv")]
        subprocess.run(command, check=True, timeout=SECONDS)
        if not INSTALLS:
            (site,) = (folder / "venv").glob("lib/python3*/site-packages")
            (site / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
            pip = folder / "venv" / "bin" / "pip"
            pip.write_text('#!/bin/sh\nexec python -m pip "$@"\n', encoding="utf-8")
            pip.chmod(0o755)
        (folder / "home").mkdir()
        return cls(folder)

    @property
    def environment(self) -> dict[str, str]:
        """What a command finds there: no variable of Python, and the programs of the environment
        first.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL"))
        }
        kept["PATH"] = f"{self.folder / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        kept["HOME"] = str(self.folder / "home")
        if not INSTALLS:
            kept["PIP_NO_COMPILE"] = "1"  # the commands compile what they import
        return kept

    def run(
        self,
        script: str,
        folder: Path,
        variables: Mapping[str, str] | None = None,
        *,
        shell: tuple[str, ...] = ("sh", "-c"),
    ) -> subprocess.CompletedProcess[str]:
        """Return what a shell script does in a folder."""
        return subprocess.run(
            [*shell, script],
            cwd=folder,
            env={**self.environment, **(variables or {})},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
