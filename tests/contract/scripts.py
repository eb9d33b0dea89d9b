"""The scripts of the project, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def load_script(name: str) -> Any:  # noqa: ANN401  # a script is no module of ours
    """Return a script of the folder `scripts` as a module."""
    found = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    if found is None or found.loader is None:
        raise RuntimeError("the script is there")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module
