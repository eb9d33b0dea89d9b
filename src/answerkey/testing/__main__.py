"""The test server in a process of its own: prints its URL and serves until it is told to end."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from answerkey.testing import TestServer, read_config


def main(words: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; return 2 for settings that cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m answerkey.testing", description=__doc__)
    parser.add_argument(
        "--port",
        type=int,
        default=0,
        help="port to listen on (default: any free one)",
    )
    parser.add_argument("--config", default="{}", help="settings as JSON, or @FILE")
    arguments = parser.parse_args(words)
    text = arguments.config
    try:
        if text.startswith("@"):
            file = Path(text[1:])
            text = file.read_text(encoding="utf-8")
        answers, behaviour = read_config(json.loads(text))
    except (OSError, TypeError, ValueError) as error:
        parser.error(str(error))
    # Handlers, not a mask: threads that libraries have started by now would not have the mask. No
    # event: a handler that interrupts its `wait` would wait for the lock that this holds.
    signals = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: signals.append(number))
    with TestServer(answers, behaviour, port=arguments.port) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        while not signals:
            time.sleep(0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main())
