"""Let a tool's own extraction function read completions: JSON lines on stdin, what it reads on
stdout.

Run as `python tool_side.py FOLDER TOOL`, with the folder where the tool is installed without what
it depends on. The modules that hold its function are the tool's own. Whatever else they import, be
it torch or the rest of the tool, is stood in for by modules whose names do nothing: extraction is
plain Python.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

#: `text`, `choices` (labels) and `options` (their texts).
Row = dict[str, Any]


class _Nothing(type):
    """The type of every name of an absent module: base class, annotation, decorator that changes
    nothing.
    """

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __call__(cls, *arguments: object, **keywords: object) -> object:
        if cls is not Nothing:
            return super().__call__(*arguments, **keywords)
        if arguments and isinstance(arguments[0], types.FunctionType | type):
            return arguments[0]
        return cls

    def __getitem__(cls, _: object) -> type:
        return cls


class Nothing(metaclass=_Nothing):
    """What stands in for any name."""

    def __init_subclass__(cls, **_: object) -> None:
        """Take any keyword, as base classes of other packages do."""


class _Absent(types.ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Imports(MetaPathFinder, Loader):
    """Find the wanted modules in the folder, the standard library where it is, and a stand-in for
    others.
    """

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self.folder = folder
        self.modules = modules

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Say where a module is."""
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        if name in self.modules:
            return spec_from_file_location(name, self.folder / f"{name.replace('.', '/')}.py")
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Make a stand-in."""
        return _Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Add nothing to it."""


def read_inspect(module: Any, rows: Sequence[Row]) -> Iterable[str]:  # noqa: ANN401 - the tool's
    """Read as `multiple_choice` does."""
    for row in rows:
        output = SimpleNamespace(completion=row["text"])
        state = SimpleNamespace(output=output, choices=row["choices"])
        yield "".join(module.parse_answers(state, multiple_correct=False))


def read_evalscope(module: Any, rows: Sequence[Row]) -> Iterable[str]:  # noqa: ANN401 - the tool's
    """Read as its tasks with one right answer do."""
    for row in rows:
        state = SimpleNamespace(choices=row["choices"])
        yield "".join(module.parse_answers(state, completion=row["text"]))


def read_lm_eval(module: Any, rows: Sequence[Row]) -> Iterable[str]:  # noqa: ANN401 - the tool's
    """Read as the flexible filter of its GPQA tasks does."""
    extract = module.MultiChoiceRegexFilter(
        regex_pattern=r"(\([A-Z]\))", group_select=-1, ignore_case=True, ignore_punctuation=True
    )
    texts = [[row["text"]] for row in rows]
    docs = [{"choices": row["options"]} for row in rows]
    for (result,) in extract.apply(texts, docs):
        yield result.strip("()")


def read_lighteval(module: Any, rows: Sequence[Row]) -> Iterable[str]:  # noqa: ANN401 - the tool's
    """Read as its metric for GPQA does."""
    extraction = module.IndicesExtractionConfig("NativeLetters", try_extract_without_anchor=True)
    for row in rows:
        patterns = module.get_extraction_regexes(
            SimpleNamespace(choices=row["choices"]), [extraction], module.Language.ENGLISH
        )
        yield "".join(module.extract_target_from_pred(row["text"], patterns))


def read_opencompass(module: Any, rows: Sequence[Row]) -> Iterable[str]:  # noqa: ANN401 - the tool's
    """Read as `first_option_postprocess` does."""
    for row in rows:
        yield module.first_option_postprocess(row["text"], "".join(row["choices"]))


def read_vlmevalkit(module: Any, rows: Sequence[Row]) -> Iterable[str]:  # noqa: ANN401 - the tool's
    """Read as it does before it asks its judge."""
    for row in rows:
        options = dict(zip(row["choices"], row["options"], strict=True))
        yield module.can_infer(row["text"], options) or ""


#: The modules of each tool that are its own, the last with the function, and how that is called.
TOOLS: dict[str, tuple[tuple[str, ...], Callable[[Any, Sequence[Row]], Iterable[str]]]] = {
    "Inspect": (("inspect_ai._util.answer", "inspect_ai.solver._multiple_choice"), read_inspect),
    "evalscope": (("evalscope.utils.multi_choices",), read_evalscope),
    "lm-eval": (("lm_eval.filters.extraction",), read_lm_eval),
    "lighteval": (
        (
            "lighteval.utils.language",
            "lighteval.tasks.templates.utils.translation_literals",
            "lighteval.tasks.templates.utils.formulation",
            "lighteval.metrics.utils.extractive_match_utils",
        ),
        read_lighteval,
    ),
    "opencompass": (("opencompass.utils.text_postprocessors",), read_opencompass),
    "VLMEvalKit": (("vlmeval.utils.matching_util",), read_vlmevalkit),
}


def main(folder: str, tool: str) -> None:
    """Read every line of stdin, then print one line for each."""
    rows = [json.loads(line) for line in sys.stdin]
    modules, read = TOOLS[tool]
    sys.meta_path.insert(0, Imports(Path(folder), modules))
    for result in read(importlib.import_module(modules[-1]), rows):
        print(json.dumps(result))  # noqa: T201 - the other side reads it


if __name__ == "__main__":
    main(*sys.argv[1:])
