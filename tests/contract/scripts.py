"""The scripts of the project, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def load_script(name: str) -> Any:  # noqa: ANN401  # a script is no module of ours
    """Return a script of the folder `scripts` as a module."""
    result = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    if result is None or result.loader is None:
        raise RuntimeError("the script is there")
    module = importlib.util.module_from_spec(result)
    sys.modules[name] = module
    result.loader.exec_module(module)
    return module
