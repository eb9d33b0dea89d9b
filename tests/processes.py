"""Processes of Python that tests start and wait for."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def run_python(
    *words: object,
    check: bool = False,
    **options: Any,  # noqa: ANN401 - of `subprocess.run`
) -> subprocess.CompletedProcess[str]:
    """Return how Python ended with these arguments, and what it wrote."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([sys.executable, *map(str, words)], check=check, text=True, **pipes)
