"""A user's own Python function, what can go wrong with it, and what can be seen without running it."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from answerkey.errors import Place, SpecError

TroubleKind = Literal["load", "raised", "timeout", "memory", "died", "bad_value"]

#: How the functions that we call look, in words, and the fewest and most arguments they may take.
CALLS: dict[str, tuple[str, int, int]] = {
    "compute_scores": ("compute_scores(sample) or compute_scores(sample, solver_output)", 1, 2),
    "compute_metrics": ("compute_metrics(scores)", 1, 1),
    "infer": ("infer(messages) or infer(messages, environment)", 1, 2),
    "run_inference": ("run_inference(model_input) or run_inference(model_input, environment)", 1, 2),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Snippet:
    """Python source that defines `function`; `label` is how reports and tracebacks name it."""

    function: str
    source: str
    place: Place | None = None
    label: str = "snippet"

    @property
    def digest(self) -> str:
        """The SHA-256 of what would run: the function's name and the source."""
        return hashlib.sha256(f"{self.function}\0{self.source}".encode()).hexdigest()

    @property
    def first_line(self) -> str:
        """The first line that holds something, for listings."""
        return next((line.strip() for line in self.source.splitlines() if line.strip()), "")


class SnippetTrouble(Exception):  # noqa: N818 - a sample's trouble is a value in the end, not an error
    """A call that gave no value.

    `traceback` shows the user's own lines, `output` the end of what the snippet printed.
    """

    def __init__(self, kind: TroubleKind, message: str, *, traceback: str = "", output: str = "") -> None:
        super().__init__(message)
        self.kind: TroubleKind = kind
        self.message = message
        self.traceback = traceback
        self.output = output

    def __str__(self) -> str:
        return f"{self.message}\n{self.traceback}" if self.traceback else self.message


def check_snippet(snippet: Snippet) -> SpecError | None:
    """Return what is wrong with a snippet as far as its text shows; nothing of it is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(snippet.source)
            compile(snippet.source, f"<{snippet.label}>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return _refuse(snippet, f"line {error.lineno or 1} is not Python: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return _refuse(snippet, f"is not Python that can be read: {error}")
    return _check_function(snippet, tree)


def _check_function(snippet: Snippet, tree: ast.Module) -> SpecError | None:
    found = [node for node in _walk_top(tree.body) if _binds(node, snippet.function)]
    if not found:
        return _refuse(snippet, f"defines no function `{snippet.function}`")
    last = found[-1]
    if isinstance(last, Function) and not last.decorator_list and not _fits(last, snippet.function):
        return _refuse(snippet, f"`{snippet.function}` cannot be called with the arguments it is given")
    return None


def _refuse(snippet: Snippet, reason: str) -> SpecError:
    form = CALLS.get(snippet.function, (f"{snippet.function}(…)", 0, 0))[0]
    return SpecError(
        "E108",
        f"Python snippet of `{snippet.label}`: {reason}",
        where=snippet.place,
        hint=f"write a function `{form}`, with `def` or `async def`",
    )


def _walk_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when the module is loaded, also those inside `if`, `try` and `with`."""
    for node in body:
        yield node
        if isinstance(node, Function | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _walk_top(getattr(node, name, []))
        for handler in getattr(node, "handlers", []):
            yield from _walk_top(handler.body)


def _binds(node: ast.stmt, name: str) -> bool:
    if isinstance(node, Function | ast.ClassDef):
        return node.name == name
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any((alias.asname or alias.name) in {name, "*"} for alias in node.names)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        names = ast.walk(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        return any(isinstance(one, ast.Name) and one.id == name for one in names)
    return False


def _fits(function: Function, name: str) -> bool:
    if name not in CALLS:
        return True
    _, fewest, most = CALLS[name]
    arguments = function.args
    takes = len(arguments.posonlyargs) + len(arguments.args)
    needs = takes - len(arguments.defaults)
    needs_keywords = any(default is None for default in arguments.kw_defaults)
    return not needs_keywords and needs <= most and (takes >= fewest or arguments.vararg is not None)
