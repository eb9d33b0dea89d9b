"""Commands; the only room that prints and exits.

`main` is the front door: it finds the command (`app`), lets it work, and turns whatever happens into text on
stderr and an exit code (`faults`). Each command reads its options, calls a verb, and prints what `reports`
drew (`talk`). Heavy libraries are imported by the command that needs them, so that `--help` is fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line and return the exit code."""
    from answerkey.cli.app import app
    from answerkey.cli.exits import catch_faults

    words = list(sys.argv[1:] if arguments is None else arguments)
    is_last = arguments is None
    return catch_faults(
        lambda: app.main(words, prog_name="answerkey", standalone_mode=False), words, is_last=is_last
    )
