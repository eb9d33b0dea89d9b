"""Features that lower packages call without importing them.

`answerkey/__init__.py` says how each is imported; that happens when a file first uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The module `gates.policies`, for the policies of a run.
load_gates: Callable[[], Any]
#: The module `robustness.choice_order`, for the metrics of tasks with `choice_order`.
load_choice_order: Callable[[], Any]
