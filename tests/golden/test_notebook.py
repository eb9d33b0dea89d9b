"""The notebook of the examples: every cell runs in order, and gives the output that is stored with
it.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "notebook" / "notebook.ipynb"


async def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a code cell as Jupyter does, `await` included, and return its outputs as a notebook
    stores them.
    """
    tree = ast.parse(source)
    parts: list[ast.Module | ast.Expression] = [tree]
    if isinstance(last := tree.body[-1], ast.Expr):
        tree.body.pop()
        parts.append(ast.Expression(last.value))
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        for part in parts:
            mode = "exec" if isinstance(part, ast.Module) else "eval"
            code = compile(part, "cell", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            value = eval(code, names)  # noqa: S307 - a notebook of our own
            value = await value if code.co_flags & inspect.CO_COROUTINE else value
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        forms = {"text/plain": repr(value)}
        if hasattr(value, "_repr_html_"):
            forms = {"text/html": value._repr_html_(), **forms}
        data = {name: text.splitlines(keepends=True) for name, text in forms.items()}
        result = {"data": data, "execution_count": None, "metadata": {}}
        outputs.append({**result, "output_type": "execute_result"})
    return outputs


async def run_notebook(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with the outputs of its cells, run one after the other in one loop."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            outputs = await run_cell("".join(cell["source"]), names)
            cells.append({**cell, "outputs": outputs})
        else:
            cells.append(cell)
    return {**notebook, "cells": cells}


def test_every_cell_gives_the_stored_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compare: Callable[[Path, str], None]
) -> None:
    """The cells run in a folder beside the other examples, in the order in which they stand."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples" / "notebook")
    notebook = asyncio.run(run_notebook(json.loads(NOTEBOOK.read_text(encoding="utf-8"))))
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    # How long calls took is no output to rely on.
    compare(NOTEBOOK, re.sub(r"p50 [\d.]+ s, p95 [\d.]+ s", "p50 0.00 s, p95 0.00 s", text))
