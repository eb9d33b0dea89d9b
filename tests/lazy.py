"""Libraries that are slow to import, loaded by the worker whose tests use them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Later:
    """A module that is imported when something of it is used.

    pytest asks every name of a test module for attributes of its own, which begin with an
    underscore.
    """

    name: str

    def __getattr__(self, attribute: str) -> Any:  # noqa: ANN401  # a module without types
        """Return something of the module."""
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self.name), attribute)


datasets: Any = Later("datasets")
pandas: Any = Later("pandas")
stats: Any = Later("scipy.stats")
trustme: Any = Later("trustme")
