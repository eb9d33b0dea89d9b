"""The live side: `asking.py` and `inspect_rate.py` as they are, with what they print."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from measuring import HERE


def run_script(name: str, words: Sequence[str] = ()) -> tuple[str, bool]:
    """Return what a script printed and whether its promises hold."""
    command = [sys.executable, str(HERE / name), *words]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - fixed words
        for line in process.stdout or ():
            print(f"  {line}", end="", flush=True)
            lines.append(line.rstrip())
    return "\n".join(lines), process.returncode == 0
