"""A compiled per-row template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from jinja2 import nodes

from answerkey.errors import SpecError, listing
from answerkey.templates.config import find_config_names
from answerkey.templates.environment import (
    Path,
    find_lone_expression,
    find_path,
    find_paths,
    is_bounded,
    open_environment,
    parse_template,
)
from answerkey.templates.limits import MAX_LOCAL_STEPS
from answerkey.templates.rendering import (
    Context,
    Recipe,
    compile_recipe,
    render_row,
    render_rows,
)
from answerkey.templates.values import FOREIGN, RowError, make_plain, translate_error
from answerkey.trace import Row

if TYPE_CHECKING:
    from answerkey.types import Samples

Kind = Literal["constant", "column", "expression"]
#: The name under which templates see the row.
SAMPLE = "sample"


class UnresolvedConfig(SpecError):  # noqa: N818 - named for what is left in the template
    """A template still contains `<< config.x >>`; `names` are the config names."""

    def __init__(self, names: Sequence[str]) -> None:
        message = f"config value that was not filled in: {listing(names)}"
        hint = (
            "config is filled in once, when a file is loaded; "
            "values are not searched for further names"
        )
        super().__init__("E110", message, hint=hint)
        self.names = tuple(names)


@dataclass(frozen=True, eq=False)
class Template:
    """A template, compiled once.

    `columns` are the columns of `sample` that it reads; None if it may read any. If `kind` is
    "column", `path` leads from `sample` to the value: `("answer",)`, or `("meta", "key")` for a
    field of a mapping.
    """

    source: object
    kind: Kind
    columns: frozenset[str] | None = frozenset()
    path: Path | None = None
    names: tuple[str, ...] = (SAMPLE,)
    _constant: object = field(default=None, repr=False)
    #: How the value is rendered if it is neither a constant nor a lone column.
    _recipe: Recipe = field(default=Recipe(""), repr=False)

    @classmethod
    def compile(cls, source: object, names: Sequence[str] = (SAMPLE,)) -> Template:
        """Return the template for a text; any other value is a constant.

        Raise SpecError E112 for an invalid template, with the line within the text, and
        `UnresolvedConfig`.
        """
        if isinstance(source, str):
            return _compile_once(source, tuple(names))
        return cls(source, "constant", names=tuple(names), _constant=source)

    def __reduce__(self) -> tuple[Callable[..., Template], tuple[object, ...]]:
        return Template.compile, (self.source, self.names)

    def paths_from(self, name: str) -> frozenset[Path]:
        """Return the constant paths that start at a name: `scores.a.b` gives `("a", "b")`."""
        if not isinstance(self.source, str):
            return frozenset()
        tree = parse_template(self.source, self.names)
        return frozenset(find_paths(tree, name))

    def evaluate(self, **context: object) -> object:
        """Return the value for one row: typed for a lone `{{ expression }}`, otherwise text.

        Raise RowError.
        """
        return _unwrap(self._evaluate_rows([_wrap_sample(context)]))

    def render(self, **context: object) -> str:
        """Return the text that Jinja prints for one row. Raise RowError."""
        if not isinstance(self.source, str):
            return str(self.source)
        shown = self._narrow(_wrap_sample(context))
        recipe = self._recipe._replace(keeps_value=False)
        return str(_unwrap(render_rows(recipe, [shown])))

    def values(self, samples: Samples) -> list[object]:
        """Return the value for every row, which is a RowError for a failing row."""
        match self.path:
            case [str(column)] if column in samples.columns:
                return samples.values(column)
        contexts = ({SAMPLE: row} for row in samples.rows())
        return self._evaluate_rows(contexts)

    def _evaluate_rows(self, contexts: Iterable[Context]) -> list[object]:
        if self.kind == "constant":
            return [self._constant for _ in contexts]
        if self.path is not None:
            return [_get_field(context, self.path) for context in contexts]
        return render_rows(self._recipe, map(self._narrow, contexts))

    def _narrow(self, context: Context) -> Context:
        """Return the context of a row without the cells that the template does not read.

        Their names are kept for hints.
        """
        if self.columns is None:
            return context
        row = Row.fromkeys(context[SAMPLE])
        for name in self.columns.intersection(row):
            row[name] = context[SAMPLE][name]
        return {**context, SAMPLE: row}


def _wrap_sample(context: Context) -> Context:
    """Return the context of one row, in which a missing key of the sample is a missing column."""
    return {**context, SAMPLE: Row(context.get(SAMPLE, ()))}


def _unwrap(outcomes: list[object]) -> object:
    """Return the only outcome. Raise its RowError."""
    [outcome] = outcomes
    if isinstance(outcome, RowError):
        raise outcome
    return outcome


def _get_field(context: Context, path: Path) -> object:
    """Return the value at a path from the sample, like Jinja but without compiling anything."""
    environment = open_environment()
    value = context[SAMPLE]
    try:
        for key in path:
            if isinstance(key, str):
                value = environment.getattr(value, key)
            else:
                value = environment.getitem(value, key)
        return make_plain(value)
    except FOREIGN as error:
        return translate_error(error)


@lru_cache(maxsize=1024)
def _compile_once(source: str, names: tuple[str, ...]) -> Template:
    """Return the template of a text, compiled once in each process."""
    config_names = find_config_names(source)
    if config_names:
        raise UnresolvedConfig(config_names)
    tree = parse_template(source, names)
    expression = find_lone_expression(tree)
    if expression is not None:
        path = find_path(expression)
        if path and isinstance(path[0], str):
            column = frozenset([path[0]])
            recipe = Recipe(source, is_bounded=True, keeps_value=True)
            return Template(source, "column", column, path, names, _recipe=recipe)
    recipe = Recipe(
        source,
        is_bounded=is_bounded(tree, names),
        keeps_value=expression is not None,
    )
    columns = _find_columns(find_paths(tree, SAMPLE))
    template = Template(source, "expression", columns, names=names, _recipe=recipe)
    if recipe.is_bounded and tree.find(nodes.Name) is None:
        constant = render_row(recipe, {}, MAX_LOCAL_STEPS)
        if not isinstance(constant, RowError):
            return replace(template, kind="constant", _constant=constant)
    # Jinja's own errors are raised here.
    compile_recipe(recipe)
    return template


def _find_columns(paths: Iterable[Path]) -> frozenset[str] | None:
    """Return the columns that the paths start with; None if a path may lead to any column.

    A column with the name of a method of mappings may be that method: `sample.items`.
    """
    columns: set[str] = set()
    for path in paths:
        if not path or not isinstance(path[0], str) or hasattr(dict, path[0]):
            return None
        columns.add(path[0])
    return frozenset(columns)
