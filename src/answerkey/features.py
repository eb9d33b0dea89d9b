"""Functions of upper packages that lower packages call without importing them.

`answerkey/__init__.py` sets these functions; each imports its module when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Return an error as Python shows it.
draw_error: Callable[[Any], str]
#: The module `gates.policies`, for the policies of a run.
load_gates: Callable[[], Any]
#: The module `robustness.choice_order`, for the metrics of tasks with `choice_order`.
load_choice_order: Callable[[], Any]
#: The module `exporters`, for runs as tables.
load_exporters: Callable[[], Any]
#: The module `importers.imports`, for logs of other tools that are opened as runs.
load_importers: Callable[[], Any]
#: The module `reports.terminal`, for runs as text.
load_terminal: Callable[[], Any]
