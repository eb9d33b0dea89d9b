"""Libraries that take long to import, for tests that only one of the processes runs."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any


def load_later(name: str) -> Any:  # noqa: ANN401  # a module without types
    """Return a module that is imported when something of it is used."""
    if name not in sys.modules:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.loader is not None
        found.loader = importlib.util.LazyLoader(found.loader)
        sys.modules[name] = importlib.util.module_from_spec(found)
        found.loader.exec_module(sys.modules[name])
    return sys.modules[name]


stats = load_later("scipy.stats")
