"""A user's own Python function: checks of its source, and whether it is trusted."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from answerkey.errors import Place, SpecError
from answerkey.text import format_count, parse_syntax

#: The signatures that a function may have: one argument, or two.
FORMS = {
    "compute_scores": ["compute_scores(sample)", "compute_scores(sample, solver_output)"],
    "compute_metrics": ["compute_metrics(scores)"],
    "infer": ["infer(messages)", "infer(messages, environment)"],
    "run_inference": ["run_inference(model_input)", "run_inference(model_input, environment)"],
}


@dataclass(frozen=True)
class Snippet:
    """Python source that defines `function`; `label` is its name in reports and tracebacks."""

    function: str
    source: str
    place: Place | None = None
    label: str = "snippet"

    @property
    def digest(self) -> str:
        """The SHA-256 of the function's name and the source, which identify the code."""
        content = f"{self.function}\0{self.source}"
        return hashlib.sha256(content.encode()).hexdigest()

    def find_parameters(self) -> ast.arguments | None:
        """Return the parameters of the function; None if the source does not show them."""
        parameters = None
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            for node in parse_syntax(self.source).body:
                is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                if not is_function or node.name != self.function:
                    continue
                parameters = node.args
                if node.decorator_list or node.args.vararg:
                    parameters = None
        return parameters


def check_snippet(snippet: Snippet) -> SpecError | None:
    """Return what is wrong with a snippet, without running any of it."""
    reason = _find_mistake(snippet)
    if reason is None:
        return None
    message = f"Python snippet of `{snippet.label}`: {reason}"
    hint = f"write a function `{' or '.join(FORMS[snippet.function])}`, with `def` or `async def`"
    return SpecError("E108", message, where=snippet.place, hint=hint)


def _find_mistake(snippet: Snippet) -> str | None:
    name = snippet.function
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(snippet.source, "<snippet>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno or 1} is not Python: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"is not Python that can be read: {error}"
    if name not in code.co_names and "import *" not in snippet.source:
        return f"defines no function `{name}`"
    parameters = snippet.find_parameters()
    if parameters is None:
        return None
    count = len(parameters.posonlyargs) + len(parameters.args)
    required = count - len(parameters.defaults)
    is_callable = count > 0 and required <= len(FORMS[name])
    if not is_callable or None in parameters.kw_defaults:
        return f"`{name}` cannot be called with the arguments it is given"
    return None


# The snippets that the user has allowed to run, by the hash of their source.


def require_trust(snippets: Sequence[Snippet], *, trust_code: bool) -> None:
    """Raise SpecError E118 unless all snippets may run, with a list of those that may not.

    With `trust_code` they are trusted from now on; the record is kept if it can be written.
    """
    trusted = _load_trusted()
    untrusted = {snippet.digest: snippet for snippet in snippets if snippet.digest not in trusted}
    if not untrusted:
        return
    if not trust_code:
        raise _list_untrusted(list(untrusted.values()))
    for digest, snippet in untrusted.items():
        trusted[digest] = {"function": snippet.function, "label": snippet.label}
    with contextlib.suppress(OSError):
        _save_trusted(trusted)


def _list_untrusted(snippets: Sequence[Snippet]) -> SpecError:
    count = format_count(len(snippets), "Python snippet")
    lines = [f"{count} that you have not trusted yet would run:"]
    for snippet in snippets:
        first_line, _, _ = snippet.source.strip().partition("\n")
        name = f"`{snippet.label}`, {snippet.function}, sha256 {snippet.digest[:12]}…"
        lines.append(f"  - {snippet.place or 'snippet'}: {name}: {first_line.rstrip()!r}")
    hint = (
        "read them, then run again with `--trust-code`; it is remembered until their text changes"
    )
    message = "\n".join(lines)
    return SpecError("E118", message, where=snippets[0].place, hint=hint)


def _trust_file() -> Path:
    """Return the path of the trust record; a relative XDG_CONFIG_HOME counts as unset."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not folder.is_absolute():
        folder = Path("~/.config").expanduser()
    return folder / "answerkey" / "trust.json"


def _load_trusted() -> dict[str, object]:
    """Return the trusted snippets; none if the record cannot be read."""
    try:
        text = _trust_file().read_text(encoding="utf-8")
        record = json.loads(text)
        return dict(record["trusted"])
    except (OSError, ValueError, RuntimeError, TypeError, KeyError):
        return {}


def _save_trusted(trusted: Mapping[str, object]) -> None:
    path = _trust_file()
    path.parent.mkdir(
        mode=0o700,
        parents=True,
        exist_ok=True,
    )
    record = {"version": 1, "trusted": trusted}
    text = json.dumps(record, indent=1, sort_keys=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
