"""Validate nodes with pydantic models, and report every mistake at its place.

Scorers, metrics, solvers and sources state their YAML fields as a frozen dataclass; a model is
made of its annotations and those of nested dataclasses, so that unknown keys are refused at every
depth. Known features of the formats that this release does not support are refused by name.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import operator
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails, PydanticCustomError

from answerkey.errors import AnswerkeyError, SpecError, find_near, listing, suggest
from answerkey.metrics.base import number_name
from answerkey.models.config import Secret
from answerkey.spec.nodes import ELLIPSES, ELLIPSIS_HINT, Json, Node, advise, from_plain, to_plain
from answerkey.templates import UnresolvedConfig

M = TypeVar("M", bound=BaseModel)
#: Annotations are read and made at run time, and any dataclass may be built from them.
Hint = Any
Built = Any

# Numbers that YAML 1.1 spells in its own ways (`1_000`, `0x1F`, `0o17`, `0b101`) are text; only a
# field that asks for a number reads them, as Python does. `010` is refused there: YAML 1.1 means 8
# by it, YAML 1.2 means 10.
_LEADING_ZERO = re.compile(r"\s*[-+]?0[0-9_]+\s*")


def _read_text(value: object) -> object:
    """Accept a whole number as the text of its digits; nothing else is converted."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _read_whole(value: object) -> object:
    """Return the whole number that a text spells; refuse `1.0`, true and false."""
    try:
        if isinstance(value, str):
            return int(value, 0)
    except ValueError:
        value = False
    if isinstance(value, bool | float):
        raise PydanticCustomError("int_type", "must be a whole number")
    return value


def _read_number(value: object) -> object:
    """Return the number that a text spells; refuse true and false, which pydantic would accept."""
    number = value
    try:
        if isinstance(value, str):
            is_whole = re.match(r"\s*[-+]?0[0-9_xob]", value)
            number = float(int(value, 0) if is_whole else value)
    except (ValueError, OverflowError):
        number = None
    is_endless = isinstance(number, float) and not math.isfinite(number)
    if number is None or isinstance(number, bool) or is_endless:
        raise PydanticCustomError("float_type", "must be a number")
    return number


def _read_secret(value: object) -> object:
    return Secret(value, "written") if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_read_text)]
Whole = Annotated[int, BeforeValidator(_read_whole)]
Number = Annotated[float, BeforeValidator(_read_number)]
KEY_PATTERN = r"^[a-zA-Z0-9_\-]+$"
Key = Annotated[
    Text,
    Field(
        pattern=KEY_PATTERN,
        min_length=1,
        max_length=250,
    ),
]
SecretText = Annotated[
    pydantic.InstanceOf[Secret],
    BeforeValidator(_read_secret),
    pydantic.WithJsonSchema({"type": "string"}),
]


class Fields(BaseModel):
    """The YAML fields of one piece of a file; unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,
        frozen=True,
        defer_build=True,
    )
    built_class: ClassVar[type | None] = None


@cache
def fields_of(built: type) -> type[Fields]:
    """Return the model of a dataclass's fields."""
    return build_model(built, built.__name__, Fields, {})


def build_model(
    built: type,
    name: str,
    base: type[Fields],
    more: Json,
) -> type[Fields]:
    """Return a model of a dataclass's fields beside those of `base`; `more` wins over them."""
    hints = get_type_hints(built, include_extras=True)
    members: Json = {}
    for entry in dataclasses.fields(built):
        if not entry.init or entry.name.startswith("_"):
            continue
        default: object = ...
        if entry.default is not dataclasses.MISSING:
            default = entry.default
        elif entry.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=entry.default_factory)
        members[entry.name] = (_convert_annotation(hints[entry.name]), default)
    model = create_model(
        name,
        __base__=base,
        __module__=__name__,
        **members | more,
    )
    model.built_class = built
    return model


_PLAIN: dict[Any, Any] = {
    str: Text,
    int: Whole,
    float: Number,
    object: Any,
}
_ANNOTATED: Hint = Annotated


def _convert_annotation(hint: Hint) -> Hint:
    """Return an annotation with lenient scalars, and dataclasses replaced by their models."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return fields_of(hint)
    origin: Hint = get_origin(hint)
    if origin is None or origin is Literal:
        return hint
    arguments = tuple(map(_convert_annotation, get_args(hint)))
    if origin is Annotated:
        return _ANNOTATED[(arguments[0], *get_args(hint)[1:])]
    if origin in {Union, types.UnionType}:
        return _build_union(arguments)
    return origin[arguments]


def _build_union(arguments: Sequence[Hint]) -> Hint:
    """Return a union in which models are told apart by their `type`; the first is the default."""
    tags: dict[str, Hint] = {}
    for argument in arguments:
        if isinstance(argument, type) and issubclass(argument, BaseModel):
            tags |= dict.fromkeys(_list_tags(argument), argument)
    if len(set(tags.values())) < 2:  # noqa: PLR2004 - nothing to tell apart
        return functools.reduce(operator.or_, arguments)
    default = next(iter(tags))

    def read_tag(value: object) -> object:
        if isinstance(value, Mapping):
            return value.get("type", default)
        return getattr(value, "type", default)

    tagged = [Annotated[model, pydantic.Tag(tag)] for tag, model in tags.items()]
    union: Hint = functools.reduce(operator.or_, tagged)
    hint = _ANNOTATED[(union, pydantic.Discriminator(read_tag))]
    for argument in arguments:
        if argument not in tags.values():
            hint |= argument
    return hint


def _list_tags(model: type[BaseModel]) -> tuple[str, ...]:
    if "type" not in model.model_fields:
        return ()
    return get_args(model.model_fields["type"].annotation)


def build(value: Any) -> Built:  # noqa: ANN401 - fields, or what they hold
    """Return the dataclass that a model's values describe, with all that is in it."""
    if isinstance(value, Fields) and value.built_class is not None:
        values = {}
        for field in dataclasses.fields(value.built_class):
            if hasattr(value, field.name):
                values[field.name] = build(getattr(value, field.name))
        return value.built_class(**values)
    if isinstance(value, tuple | list):
        return type(value)(map(build, value))
    if isinstance(value, dict):
        return {key: build(entry) for key, entry in value.items()}
    return value


def try_build(fields: Fields | None, node: Node) -> Built:
    """Return the dataclass of a part, or None when its own checks refuse it, which is reported."""
    try:
        return build(fields)
    except AnswerkeyError as error:
        path = error.where.field if error.where else None
        for name in node.entries:
            if path is None and f"`{name}`" in error.message:
                path = name
        steps = (path or "").split(".")
        node.at(*steps).report(error.code, error.message, error.hint)
    except (TypeError, ValueError) as error:
        node.report("E108", str(error))
    return None


_EXTRA = "extra_forbidden"
#: `<< config.x >>` that is left was reported already.
_UNRESOLVED = re.compile(r"<<\s*config\.")
_SECRETIVE = frozenset({"api_key", "custom_headers", "environment", "secrets"})
_SHOWN = 60

#: Mistakes that pydantic finds, in the words of the documentation; others keep pydantic's message.
_WORDS: dict[str, str] = {
    "string_type": "must be text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type"), "must be a mapping"
    ),
    "none_required": "must be null",
}


def validate_node(model: type[M], node: Node, name: str) -> M | None:
    """Return the model's values, without optional ones that are wrong; report every mistake.

    None when a required value is missing or wrong. `name` is for messages.
    """
    if not node.is_map:
        node.report("E108", f"{name} must be a mapping, not {_shorten(to_plain(node))}")
        return None
    try:
        return model.model_validate(to_plain(node))
    except ValidationError as error:
        details = error.errors(include_url=False)
    # A key that seems to be missing may be there under a wrong name.
    misspelt = {detail["loc"][:-1] for detail in details if detail["type"] == _EXTRA}
    for detail in _merge_alternatives(details):
        is_misspelt = detail["loc"][:-1] in misspelt
        if detail["type"] != "missing" or not is_misspelt:
            _report(detail, model, node, name)
    faulty = {str(detail["loc"][0]) for detail in details}
    try:
        return model.model_validate(to_plain(node.without(*faulty)))
    except ValidationError:
        return None


def _merge_alternatives(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Keep one error for a value that fits none of several plain types.

    For a list that might have been a text, the mistakes inside the list are kept.
    """
    merged: dict[Any, ErrorDetails] = {}
    for detail in details:
        parent = detail["loc"][:-1]
        mark: Any = (parent, id(detail["input"]))
        if detail["type"] in {_EXTRA, "missing"}:
            mark = detail["loc"]
        elif detail["type"] == "string_type" and isinstance(detail["input"], list):
            inside = [inner for inner in details if inner["loc"][: len(parent)] == parent]
            if len(inside) > 1:
                continue
        merged.setdefault(mark, detail)
    return list(merged.values())


def _report(
    detail: ErrorDetails,
    model: type[BaseModel],
    node: Node,
    name: str,
) -> None:
    """Report what pydantic found, unless an unresolved config name causes it."""
    kind = detail["type"]
    loc = detail["loc"]
    value = detail["input"]
    key = str(loc[-1])
    outer = loc[:-1]
    target, path = node.find(outer if kind == _EXTRA else loc)
    steps = ".".join(map(str, path))
    within = f" in {name}"
    subject = name
    if steps:
        within = f" in `{steps}` of {name}"
        subject = f"`{steps}`"
    if kind == "missing":
        target.report("E108", f"`{key}` is missing{within}", f"add `{key}: …`")
    elif kind == _EXTRA and key in FOREIGN_KEYS:
        message = f"`{key}` of the original platform is not supported"
        target.report("E116", message, FOREIGN_KEYS[key], key=key)
    elif kind == _EXTRA:
        hint = advise(key, sorted(keys_at(model, outer)), "keys there")
        target.report("E107", f"unknown key `{key}`{within}", hint, key=key)
    elif kind == "union_tag_invalid":
        expected = detail["ctx"]["expected_tags"].replace("'", "")
        tag = detail["ctx"]["tag"]
        hint = advise(tag, expected.split(", "), "types")
        target.at("type").report("E109", f"unknown type {tag!r}", hint)
    elif str(value) in FOREIGN_KEYS and kind == "literal_error":
        message = f"`{steps}: {value}` of the original platform is not supported"
        target.report("E116", message, FOREIGN_KEYS[str(value)])
    elif not _UNRESOLVED.search(str(value)):
        is_secret = bool(_SECRETIVE.intersection(path))
        message, advice = explain(detail, is_secret=is_secret)
        target.report("E108", f"{subject} {message}", advice)


def explain(detail: ErrorDetails, *, is_secret: bool = False) -> tuple[str, str | None]:
    """Return the mistake in a value, as the end of a sentence, and what to write instead."""
    kind = detail["type"]
    value = detail["input"]
    shown = "***" if is_secret else _shorten(value)
    if kind in _WORDS:
        return f"{_WORDS[kind]}, not {shown}", _advise(kind, value)
    context = detail.get("ctx", {})
    if kind == "literal_error":
        values = re.findall(r"'([^']*)'", context["expected"])
        near = suggest(str(value), values)
        return f"is {shown}; it must be {context['expected']}", near
    if kind == "string_pattern_mismatch":
        return f"is {shown}; it must match `{context['pattern']}`", None
    message = detail["msg"]
    return f"is {shown}: {message[:1].lower()}{message[1:]}", None


def _advise(kind: str, value: object) -> str | None:
    """Return a hint how to write a value of the right type."""
    if isinstance(value, str) and value in ELLIPSES:
        return ELLIPSIS_HINT
    if kind == "string_type" and isinstance(value, bool | float):
        return "put the value in quotes to make it text"
    if _WORDS[kind] == "must be a list":
        return "begin each entry with `- `, or write `[…]`"
    lacks_space = re.match(r"[\w-]+:\S", str(value))
    if _WORDS[kind] == "must be a mapping" and lacks_space:
        return "put a space after the colon"
    if isinstance(value, str) and _LEADING_ZERO.fullmatch(value):
        return "a leading 0 may mean octal or nothing: leave it out, or write `0o10` for 8"
    return None


def _shorten(value: object) -> str:
    text = repr(value)
    if value is None or isinstance(value, bool):
        text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> set[str]:
    """Return the keys that are allowed at a location of a model."""
    models = {model}
    for step in loc:
        inner: set[type[BaseModel]] = set()
        for outer in models:
            inner.update(_inner_models(outer, str(step)))
            if step in _list_tags(outer):
                inner.add(outer)
        models = inner or models
    keys: set[str] = set()
    for outer in models:
        keys.update(field.alias or key for key, field in outer.model_fields.items())
    return keys


def _inner_models(model: type[BaseModel], field: str) -> Iterator[type[BaseModel]]:
    if field not in model.model_fields:
        return
    waiting = [model.model_fields[field].annotation]
    while waiting:
        hint = waiting.pop()
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            yield hint
        else:
            waiting.extend(get_args(hint))


_TRACES = "export the traces as JSONL and name the file: `type: local`"
_ROWS = "questions are not made here: generate the rows first, and name the file"

#: Types of the original platform that are not supported here, by the part of a file.
FOREIGN_TYPES: dict[str, dict[str, str]] = {
    "source": {
        "inspect_ai": "`answerkey import inspect FILE` makes a dataset and completions of a log",
        **dict.fromkeys(("langsmith", "phoenix", "claude_code", "opencode"), _TRACES),
    },
    "scorer": {
        "python_all_samples": "a score depends on its own sample alone: "
        "compute over all of them in a `python` metric",
        "bleu": "multiple choice has one right answer: write another rule as a `python` scorer",
        "rag_checker": "there are no retrieved passages in multiple choice: "
        "write a `python` scorer",
        "function_call_coverage": "there are no function calls in multiple choice: "
        "write a `python` scorer",
    },
}

#: Keys of the original platform that are not supported here in any place.
FOREIGN_KEYS: dict[str, str] = {
    **dict.fromkeys(("dataset_generators", "generator_specification"), _ROWS),
    **dict.fromkeys(("apps", "app"), "there are no apps here: leave it out"),
    "evaluations": "evaluation plans are not supported: run each entry as a run file of its own",
    "integrations": "keys of providers come from the environment: leave it out",
    "postprocessor": "the scorer reads the completion as it is: "
    "use `extraction`, or a `python` scorer",
    "secrets": "secrets belong at the top of the run file, next to `models`",
    "system_task": "the platform's own tasks are not here: write `type: benchmark_task` with "
    "`scorers`, or run a ready-made task (`answerkey tasks` lists them)",
}

#: Solvers of the original platform that ask more than one question for a sample.
OUTSIDE_SOLVERS = frozenset(
    {"multi_turn_solver", "grouped_single_turn_solver", "python", "generate_loop"}
)


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a file whose `type` names a class of a registry, such as a scorer or a source.

    `common` are the fields that all kinds have beside their own.
    """

    name: str
    registry: Mapping[str, type]
    common: type[Fields] = Fields
    suffix: str = "Fields"

    @cache  # noqa: B019 - there are five of them, for the life of the process
    def model(self, kind: str) -> type[Fields]:
        """Return the model of the YAML of one kind."""
        built = self.registry[kind]
        spelling = kind.replace("-", "_")
        names: Json = {"type": (Literal[kind, spelling], ...)}
        return build_model(built, built.__name__ + self.suffix, self.common, names)

    def choose(self, node: Node) -> str | None:
        """Return the `type` that a node names; report a missing, unknown or foreign one.

        A type whose name has a hyphen may be written with an underscore.
        """
        kind = node.field("type")
        if kind.is_null:
            label = "dataset `source`" if self.name == "source" else f"`{self.name}`"
            message = f"`type` is missing in {label}"
            hint = f"types: {listing(self.registry)}"
            if not node.is_map:
                message = f"{label} must be a mapping with a `type`"
            elif misspelt := find_near("type", node.entries):
                hint = f"write `type` for `{misspelt}`; {hint}"
            node.report("E108", message, hint)
            return None
        name = str(to_plain(kind))
        for spelling in (name, name.replace("_", "-")):
            if spelling in self.registry:
                return spelling
        self._refuse(name, kind)
        return None

    def _refuse(self, name: str, kind: Node) -> None:
        """Report a type that is not supported."""
        supported = f"supported: {listing(sorted(self.registry))}"
        foreign = FOREIGN_TYPES.get(self.name, {})
        if name in foreign:
            message = f"{self.name} type `{name}` of the original platform is not supported"
            kind.report("E116", message, f"{foreign[name]}; {supported}")
        elif self.name == "solver" and name in OUTSIDE_SOLVERS:
            message = f"solver type `{name}` is outside the scope of multiple choice"
            kind.report("E303", message, supported)
        else:
            if self.name == "scorer":
                supported += "; for a rule of your own use a `python` scorer"
            near = suggest(name, self.registry) or ""
            kind.report("E109", f"unknown {self.name} type {name!r}", f"{near} {supported}".strip())

    def read(self, node: Node, *, number: int | None = None) -> tuple[Any, Built]:
        """Return the fields of a node and the object they describe; None for what is refused.

        `number` is for messages about an entry of a list.
        """
        kind = self.choose(node)
        if kind is None:
            return None, None
        written = node.entries["type"]
        node = node.with_entry("type", written.changed(kind))
        name = f"{self.name} `{kind}`"
        if number is not None:
            name = f"{self.name} {number} (`{kind}`)"
        fields = validate_node(self.model(kind), node, name)
        return fields, try_build(fields, node)


def assign_keys(entries: Sequence[tuple[Node, str]], what: str, within: str) -> list[str]:
    """Return a key for each `(node, default)`; report one that is given twice (E114).

    A default that is taken is numbered: `-2`, `-3`, ….
    """
    taken: set[str] = set()
    for node, _ in entries:
        if node.key in taken:
            message = f"{what} key `{node.key}` is used twice {within}"
            node.report("E114", message, "give each its own `key`")
        if node.key is not None:
            taken.add(node.key)
    keys = []
    for node, default in entries:
        key = node.key
        if key is None:
            key = number_name(default, taken)
        keys.append(key)
        taken.add(key)
    return keys


def report_text(error: SpecError, node: Node) -> None:
    """Report an error in a text at the line that it names; an unknown config name was reported."""
    line = error.where.line if error.where else None
    if not isinstance(error, UnresolvedConfig):
        place = node.place_of_line(line)
        node.problems.add(error.code, error.message, place, error.hint)


class Deprecation(NamedTuple):
    """An old key (or an old value of a key) of one part of a file, and what replaces it.

    `hint` says what to write, with the old value as `{}`. `build` makes the value of `replacement`
    from the old one, or returns None for one that is wrong under any name. Without a replacement
    the old entry is dropped, or kept if only its place is old.
    """

    part: str
    name: str
    hint: str
    replacement: str | None = None
    build: Callable[[Any], object] = lambda value: value
    value: str | None = None
    is_kept: bool = False

    @property
    def title(self) -> str:
        """The name in messages."""
        return f"{self.name}: {self.value}" if self.name == "type" else self.name


def _read_column(name: object) -> object:
    """Turn a column name into a template that reads the column."""
    if not isinstance(name, str | int) or isinstance(name, bool):
        return None
    return f"{{{{ sample['{_escape(name)}'] }}}}"


def _escape(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace("'", "\\'")


_ENTITY = (
    "leave it out: a task with a `solver` evaluates a model, one without evaluates the dataset"
)
_MOVED = "write `run_config: {{{{{}: {{}}}}}}`"
DEPRECATIONS: tuple[Deprecation, ...] = (
    Deprecation(
        "scorer",
        "ground_truth_choice_field",
        "write `ground_truth_choice: \"{{{{ sample['{}'] }}}}\"`",
        "ground_truth_choice",
        _read_column,
    ),
    Deprecation(
        "scorer",
        "choices_field",
        "write `choices: \"{{{{ sample['{}'] }}}}\"`",
        "choices",
        _read_column,
    ),
    Deprecation("definition", "type", "write `type: benchmark_task`", value="declarative_task"),
    Deprecation("task", "evaluated_entity_type", _ENTITY),
    Deprecation("definition", "evaluated_entity_type", _ENTITY),
    Deprecation("specification", "entity_key", "write `model_key: …`", "model_key"),
    Deprecation(
        "dataset choice",
        "fast_subset_size",
        "it is ignored; write `run_config: {{num_samples: …}}`",
    ),
    Deprecation(
        "dataset",
        "file_path",
        "write `source: {{type: local, file_path: {}}}`",
        "source",
        lambda path: {"type": "local", "file_path": path},
    ),
    Deprecation(
        "evaluation",
        "mode",
        "write `run_config: {{num_samples: 10}}`",
        "num_samples",
        lambda _: 10,
        value="debug",
    ),
    Deprecation("evaluation", "mode", "leave it out", value="full"),
    Deprecation("evaluation", "num_samples", _MOVED.format("num_samples"), is_kept=True),
    Deprecation("evaluation", "subsampling", _MOVED.format("subsampling"), is_kept=True),
    Deprecation("evaluation", "cache_policy", _MOVED.format("cache_policy"), is_kept=True),
)


def replace_old_names(node: Node, part: str) -> Node:
    """Return a part of a file with its old names replaced, and add a notice for each."""
    written = node
    for old in DEPRECATIONS:
        entry = written.field(old.name)
        is_old_value = old.value in {None, entry.text}
        if old.part != part or entry.is_null or not is_old_value:
            continue
        message = f"`{old.title}` of the {part} is deprecated"
        hint = old.hint.format(_escape(to_plain(entry)))
        new = old.replacement
        if new is not None and new in written.entries:
            message += f", and `{new}` is given too: `{new}` is used"
            hint = f"remove `{old.name}`"
        elif new is not None:
            value = old.build(to_plain(entry))
            if value is None:
                continue
            replacement = from_plain(value, entry.place, entry.problems)
            node = node.with_entry(new, replacement)
        if not old.is_kept:
            node = node.without(old.name)
        node.problems.notice(message, written.key_place(old.name), hint)
    return node
