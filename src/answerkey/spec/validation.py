"""A node is held against a pydantic model: every mistake is reported at its place, what is sound is
built.

A scorer, metric, solver or source states its YAML fields as a frozen dataclass; its annotations are
read here, with those of nested dataclasses, so that unknown keys are refused at every depth. What
the formats name and this release does not do is refused by name.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import operator
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from answerkey.errors import AnswerkeyError, Place, SpecError, find_near, listing, suggest
from answerkey.models.config import Secret
from answerkey.spec.nodes import BROKEN, ELLIPSES, ELLIPSIS_HINT, Node, Path, Problems, to_plain
from answerkey.templates import UnresolvedConfig

M = TypeVar("M", bound=BaseModel)
#: Annotations are read and made at run time, and whatever dataclass they belong to is built.
Hint = Any
Built = Any

# Numbers that YAML 1.1 spells in its own ways (`1_000`, `0x1F`, `0o17`, `0b101`) are text wherever
# text may stand; only a field that asks for a number reads them. `010` is refused there: YAML 1.1
# means 8 by it, YAML 1.2 means 10.
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
#: Python itself refuses to print longer ones back.
_MAX_DIGITS = 300


def advise_leading_zero(value: object) -> str | None:
    """Return a hint for a text that is a whole number of which YAML 1.1 and 1.2 make two different
    ones.
    """
    is_one = isinstance(value, str) and _LEADING_ZERO.fullmatch(value.strip())
    return (
        "a leading 0 may mean octal or nothing: leave it out, or write `0o10` for 8"
        if is_one
        else None
    )


def parse_whole(text: str) -> int | None:
    """Return the whole number that a text spells, or None."""
    trimmed = text.strip()
    if len(trimmed) > _MAX_DIGITS or not _WHOLE.fullmatch(trimmed):
        return None
    try:
        return int(trimmed.replace("_", ""), 0)
    except ValueError:
        return None


def parse_number(text: str) -> float | None:
    """Return the finite number that a text spells, or None."""
    whole = parse_whole(text)
    if whole is not None:
        return float(whole)
    if advise_leading_zero(text) or not _NUMBER.fullmatch(text.strip()):
        return None
    number = float(text.strip().replace("_", ""))
    return number if math.isfinite(number) else None


def _read_text(value: object) -> object:
    """Accept a whole number where text is asked for: its digits are its text. Nothing else is
    retyped.
    """
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _read_number(value: object) -> object:
    """Return the number that a text spells.

    Refuse true and false, which pydantic would read as 1 and 0.
    """
    if isinstance(value, str):
        value = value if (number := parse_number(value)) is None else number
    if isinstance(value, bool | str):
        raise PydanticCustomError("float_type", "must be a number")
    return value


def _read_whole(value: object) -> object:
    """Return the whole number that a text spells.

    Refuse `1.0`, true and false: they are not the text `1`.
    """
    if advise_leading_zero(value):
        raise PydanticCustomError("leading_zero", "must be a whole number")
    if isinstance(value, str):
        return value if (number := parse_whole(value)) is None else number
    if isinstance(value, bool | float):
        raise PydanticCustomError("int_type", "must be a whole number")
    return value


class _SecretSchema:
    """How pydantic reads a secret: as one, or as a text that becomes one.

    Described to editors as text.
    """

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: pydantic.GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of a secret."""
        del source, handler
        return core_schema.no_info_before_validator_function(
            lambda value: Secret(value, "written") if isinstance(value, str) else value,
            core_schema.is_instance_schema(Secret),
            json_schema_input_schema=core_schema.str_schema(),
        )


Text = Annotated[str, BeforeValidator(_read_text)]
Whole = Annotated[int, BeforeValidator(_read_whole)]
Number = Annotated[float, BeforeValidator(_read_number)]
Key = Annotated[Text, Field(pattern=r"^[a-zA-Z0-9_\-]+$", min_length=1, max_length=250)]
SecretText = Annotated[Secret, _SecretSchema]


class Fields(BaseModel):
    """The YAML fields of one piece of a file; unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid", arbitrary_types_allowed=True, frozen=True, defer_build=True
    )
    built_class: ClassVar[type | None] = None


@cache
def fields_of(built: type) -> type[Fields]:
    """Return the model of a dataclass's fields."""
    hints = get_type_hints(built, include_extras=True)
    members: dict[str, Any] = {}
    for entry in dataclasses.fields(built):
        if not entry.init or entry.name.startswith("_"):
            continue
        default: object = ...
        if entry.default is not dataclasses.MISSING:
            default = entry.default
        elif entry.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=entry.default_factory)
        members[entry.name] = (_convert(hints[entry.name]), default)
    model = create_model(built.__name__, __base__=Fields, __module__=__name__, **members)
    model.built_class = built
    return model


def extend_fields(
    model: type[Fields], name: str, base: type[Fields], **members: Hint
) -> type[Fields]:
    """Return `model` with the common fields of `base` and some more members in front."""
    return create_model(name, __base__=(model, base), __module__=__name__, **members)


_PLAIN: dict[Any, Any] = {str: Text, int: Whole, float: Number, object: Any}
_ANNOTATED: Hint = Annotated


def _convert(hint: Hint) -> Hint:
    """Return an annotation with `str` read leniently and dataclasses replaced by their models.

    Several models in a union are told apart by their `type`; without one, the first is meant.
    """
    if hint in _PLAIN:
        return _PLAIN[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return fields_of(hint)
    origin: Hint = get_origin(hint)
    if origin is None or origin is Literal:
        return hint
    arguments = tuple(_convert(argument) for argument in get_args(hint))
    if origin is Annotated:
        return _ANNOTATED[(arguments[0], *get_args(hint)[1:])]
    if origin not in {Union, types.UnionType}:
        return origin[arguments]
    tags = {
        one: _list_tags(one)
        for one in arguments
        if isinstance(one, type) and issubclass(one, BaseModel)
    }
    models = [one for one, names in tags.items() if names]
    if len(models) < 2:  # noqa: PLR2004 - nothing to tell apart
        return functools.reduce(operator.or_, arguments)
    default = tags[models[0]][0]

    def read_tag(value: object) -> object:
        return (
            value.get("type", default)
            if isinstance(value, Mapping)
            else getattr(value, "type", default)
        )

    tagged = [Annotated[one, pydantic.Tag(tag)] for one in models for tag in tags[one]]
    chosen = _ANNOTATED[(functools.reduce(operator.or_, tagged), pydantic.Discriminator(read_tag))]
    return functools.reduce(operator.or_, (one for one in arguments if one not in models), chosen)


def _list_tags(model: type[BaseModel]) -> tuple[str, ...]:
    entry = model.model_fields.get("type")
    return get_args(entry.annotation) if entry else ()


def build(fields: Fields) -> Built:
    """Return the dataclass that a model's values describe."""
    built: Any = fields.built_class
    names = [
        entry.name
        for entry in dataclasses.fields(built)
        if entry.init and hasattr(fields, entry.name)
    ]
    return built(**{name: _build_value(getattr(fields, name)) for name in names})


def _build_value(value: object) -> object:
    if isinstance(value, Fields) and value.built_class is not None:
        return build(value)
    if isinstance(value, tuple | list):
        return type(value)(_build_value(entry) for entry in value)
    if isinstance(value, dict):
        return {key: _build_value(entry) for key, entry in value.items()}
    return value


def try_build(fields: Fields, node: Node, problems: Problems) -> Built:
    """Return the dataclass of a part.

    None when its own checks refuse it, reported at the field they name.
    """
    try:
        return build(fields)
    except AnswerkeyError as error:
        field = error.where.field if error.where else None
        named = next((name for name in node.entries if f"`{name}`" in error.message), "")
        where = node.at(*(field or named).split(".")).place
        problems.report(type(error)(error.code, error.message, where=where, hint=error.hint))
    except (TypeError, ValueError) as error:
        problems.add("E108", str(error), node.place)
    return None


_EXTRA = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
#: What was reported already: a config name that stands for nothing.
_UNRESOLVED = re.compile(r"<<\s*config\.")
_SECRETIVE = frozenset({"api_key", "custom_headers", "environment", "secrets"})
_SHOWN = 60

#: What pydantic found, in the words of the documentation; others keep pydantic's own sentence.
_WORDS: dict[str, str] = {
    "string_type": "must be text",
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float", "leading_zero"), "must be a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
        "must be a mapping",
    ),
    "none_required": "must be null",
}


def validate_node(model: type[M], node: Node, problems: Problems, *, name: str) -> M | None:
    """Return the model's values, or None when a required one is missing or wrong.

    `name` is for messages. Unknown keys and unsuitable optional values are reported and left out;
    errors that a broken value or an unresolved `<< config.x >>` would cause are not reported, since
    the cause has been.
    """
    if not node.is_map:
        if not node.is_broken:
            problems.add(
                "E108", f"{name} must be a mapping, not {_shorten(to_plain(node))}", node.place
            )
        return None
    try:
        return model.model_validate(to_plain(node))
    except ValidationError as error:
        details = error.errors(include_url=False)
    for detail in sorted(_merge_alternatives(details), key=lambda one: one["type"] == "missing"):
        kind, loc, value, context = (
            detail["type"],
            detail["loc"],
            detail["input"],
            detail.get("ctx", {}),
        )
        found, taken = node.find(loc[:-1] if kind in _EXTRA else loc)
        is_open = isinstance(value, str) and bool(_UNRESOLVED.search(value))
        if (
            found.is_broken
            if kind == "missing"
            else kind not in _EXTRA and (is_open or value is BROKEN)
        ):
            continue  # the cause has been reported
        steps = ".".join(map(str, taken))
        within = f" in `{steps}` of {name}" if steps else f" in {name}"
        if kind == "missing":
            if (found.place, str(loc[-1])) not in problems.misspelt:
                hint = f"add `{loc[-1]}: …`"
                problems.add("E108", f"`{loc[-1]}` is missing{within}", found.place, hint)
        elif kind in _EXTRA:
            key = str(loc[-1])
            where = found.key_place(key)
            if key in FOREIGN_KEYS:
                message = f"`{key}` of the original platform is not done"
                problems.add("E116", message, where, FOREIGN_KEYS[key])
                continue
            known = sorted(keys_at(model, loc[:-1]))
            near = find_near(key, known)
            problems.misspelt.update((found.place, one) for one in near)
            hint = f"did you mean `{near[0]}`?" if near else f"keys there: {listing(known)}"
            problems.add("E107", f"unknown key `{key}`{within}", where, hint)
        elif kind == "union_tag_invalid":
            known = [name.strip("'") for name in str(context.get("expected_tags", "")).split(", ")]
            tag = str(context.get("tag"))
            hint = suggest(tag, known) or f"types: {listing(known)}"
            problems.add("E109", f"unknown type {tag!r}", found.at("type").place, hint)
        elif kind == "literal_error" and isinstance(value, str) and value in FOREIGN_KEYS:
            message = f"`{steps}: {value}` of the original platform is not done"
            problems.add("E116", message, found.place, FOREIGN_KEYS[value])
        else:
            shown = "***" if _SECRETIVE & set(taken) else _shorten(value)
            said = f"{f'`{steps}`' if steps else name} {_describe(detail, shown)}"
            problems.add("E108", said, found.place, _advise(kind, value, context))
    # What must go for an error to go is the faulty node, or the one that lacks something.
    rest, faulty = node, {node.find(detail["loc"])[1] for detail in details}
    while () not in faulty:
        rest = _prune(rest, faulty)
        try:
            return model.model_validate(to_plain(rest))
        except ValidationError as other:
            faulty = {rest.find(detail["loc"])[1] for detail in other.errors(include_url=False)}
    return None


def _prune(node: Node, faulty: set[Path], path: Path = ()) -> Node:
    inner = node.entries.items() if node.is_map else enumerate(node.items)
    kept = {
        step: _prune(entry, faulty, (*path, step))
        for step, entry in inner
        if (*path, step) not in faulty
    }
    return (
        node
        if node.is_scalar
        else replace(node, value=kept if node.is_map else tuple(kept.values()))
    )


def _merge_alternatives(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Keep one error for a value that fits none of several plain types: the ways to it are the
    same.

    Of a list that might have been a text, what is wrong inside is told instead.
    """
    whole = {*_EXTRA, "missing"}
    kept: list[ErrorDetails] = []
    lists = [one["type"] == "string_type" and isinstance(one["input"], list) for one in details]
    for is_list, detail in sorted(zip(lists, details, strict=True), key=operator.itemgetter(0)):
        above = detail["loc"][:-1]
        is_told = detail["type"] not in whole and any(
            (
                one["type"] not in whole
                and one["input"] is detail["input"]
                and one["loc"][:-1] == above
            )
            or (is_list and one["loc"][: len(above)] == above)
            for one in kept
        )
        kept.extend(() if is_told else (detail,))
    return kept


def _describe(detail: ErrorDetails, value: str) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in {"literal_error", "enum"}:
        return f"is {value}; it must be {context.get('expected')}"
    if kind == "string_pattern_mismatch":
        return f"is {value}; it must match `{context.get('pattern')}`"
    if kind in _WORDS:
        return f"{_WORDS[kind]}, not {value}"
    if kind == "value_error":
        return f"{str(context.get('error')).rstrip('.')} (it is {value})"
    message = detail["msg"]
    return f"is {value}: {message[:1].lower()}{message[1:]}"


def _advise(kind: str, value: object, context: Mapping[str, Any]) -> str | None:
    if isinstance(value, str) and value in ELLIPSES:
        return ELLIPSIS_HINT
    if kind == "string_type" and isinstance(value, bool | float):
        return "put the value in quotes to make it text"
    if kind in {"leading_zero", "float_type"}:
        return advise_leading_zero(value)
    if kind in {"list_type", "tuple_type"}:
        return "begin each entry with `- `" if isinstance(value, Mapping) else "write a list: `[…]`"
    if _WORDS.get(kind) == "must be a mapping" and re.match(r"[\w-]+:\S", str(value)):
        return "put a space after the colon"
    if kind == "literal_error":
        return suggest(str(value), re.findall(r"'([^']*)'", str(context.get("expected"))))
    return None


def _shorten(value: object) -> str:
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> set[str]:
    """Return the keys that may stand at a location of a model."""
    models = {model}
    for step in loc:
        having = [one for one in models if step in one.model_fields]
        inner = {found for one in having for found in _inner_models(one, str(step))}
        models = inner or {one for one in models if step in _list_tags(one)} or models
    return {entry.alias or key for one in models for key, entry in one.model_fields.items()}


def _inner_models(model: type[BaseModel], field: str) -> Iterator[type[BaseModel]]:
    waiting = [model.model_fields[field].annotation]
    while waiting:
        hint = waiting.pop()
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            yield hint
        else:
            waiting.extend(get_args(hint))


_TRACES = "export the traces as JSONL and name the file: `type: local`"
_ROWS = "questions are not made here: generate the rows first, and name the file"

#: Types of the original platform that are not done here, by the part of a file, and what to do
#: instead.
FOREIGN_TYPES: dict[str, dict[str, str]] = {
    "source": {
        "inspect_ai": "`answerkey import inspect FILE` makes a dataset and completions of a log",
        **dict.fromkeys(("langsmith", "phoenix", "claude_code", "opencode"), _TRACES),
    },
    "scorer": {
        "python_all_samples": "a score depends on its own sample alone: "
        "compute over all of them in a"
        " `python` metric",
        "bleu": "multiple choice has one right answer: write another rule as a `python` scorer",
        "rag_checker": "there are no retrieved passages in multiple "
        "choice: write a `python` scorer",
        "function_call_coverage": "there are no function calls in multiple choice: "
        "write a `python` scorer",
    },
}

#: Keys of the original platform that have no place here, wherever they stand, and what to do
#: instead.
FOREIGN_KEYS: dict[str, str] = {
    **dict.fromkeys(("dataset_generators", "generator_specification"), _ROWS),
    **dict.fromkeys(("apps", "app"), "there are no apps here: leave it out"),
    "integrations": "keys of providers come from the environment: leave it out",
    "postprocessor": "the scorer reads the completion as it is: use "
    "`extraction`, or a `python` scorer",
    "secrets": "secrets stand at the top of the run file, beside `models`",
    "system_task": "the platform's own tasks are not here: write `type: benchmark_task` with "
    "`scorers`, or"
    " run a ready-made task (`answerkey tasks` lists them)",
}

#: Solvers of the original platform that ask more than one question for a sample.
OUTSIDE_SOLVERS = frozenset(
    {"multi_turn_solver", "grouped_single_turn_solver", "python", "generate_loop"}
)


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a file whose `type` names a class of a registry: a scorer, metric, solver, source
    or rule.

    `common` are the fields that all kinds have beside their own.
    """

    name: str
    registry: Mapping[str, type]
    common: type[Fields] = Fields
    suffix: str = "Fields"

    @cache  # noqa: B019 - there are five of them, for the life of the process
    def model(self, kind: str) -> type[Fields]:
        """Return the model of the YAML of one kind."""
        own = fields_of(self.registry[kind])
        kinds = (Literal[kind, kind.replace("-", "_")], ...)
        return extend_fields(own, own.__name__ + self.suffix, self.common, type=kinds)

    def choose(self, node: Node, problems: Problems) -> str | None:
        """Return the `type` that a node names; report a missing, unknown or foreign one.

        A type whose name has a hyphen may be written with an underscore.
        """
        kind = node.get("type")
        if kind is not None and kind.text is not None:
            hyphenated = kind.text.replace("_", "-")
            for name in (kind.text, hyphenated):
                if name in self.registry:
                    return name
        if kind is None:
            label = f"`{self.name}`" if self.name != "source" else "dataset `source`"
            message = f"`type` is missing in {label}"
            message = message if node.is_map else f"{label} must be a mapping with a `type`"
            if not node.is_map or not node.is_broken:
                problems.add("E108", message, node.place, f"types: {listing(self.registry)}")
            return None
        name = str(kind.value if kind.is_scalar else None)
        supported = f"supported: {listing(sorted(self.registry))}"
        foreign = FOREIGN_TYPES.get(self.name, {}).get(name)
        if foreign is not None:
            message = f"{self.name} type `{name}` of the original platform is not done"
            problems.add("E116", message, kind.place, f"{foreign}; {supported}")
        elif self.name == "solver" and name in OUTSIDE_SOLVERS:
            message = f"solver type `{name}` is outside the scope of multiple choice"
            problems.add("E303", message, kind.place, supported)
        else:
            own = "; for a rule of your own use a `python` scorer" if self.name == "scorer" else ""
            near = suggest(name, self.registry)
            hint = f"{near} {supported}" if near else f"{supported}{own}"
            problems.add("E109", f"unknown {self.name} type {name!r}", kind.place, hint)
        return None

    def read(
        self, node: Node, problems: Problems, *, number: int | None = None
    ) -> tuple[Any, Built]:
        """Return the fields of a node and the object they describe, which is None for one that
        refuses them.

        Both are None when there are no fields. `number` is for messages about an entry of a list.
        """
        kind = self.choose(node, problems)
        if kind is None:
            return None, None
        node = node.having("type", replace(node.at("type"), value=kind))
        name = f"{self.name} `{kind}`" if number is None else f"{self.name} {number} (`{kind}`)"
        fields = validate_node(self.model(kind), node, problems, name=name)
        return fields, None if fields is None else try_build(fields, node, problems)


def assign_keys(
    wanted: Sequence[tuple[str | None, str, Place]], problems: Problems, *, what: str, within: str
) -> list[str]:
    """Return a key for each `(given key, default, place)`; a given key that appears twice is
    reported (E114).

    A default that is taken is numbered: `-2`, `-3`, ….
    """
    taken: set[str] = set()
    for given, _, place in wanted:
        if given is not None and given in taken:
            message = f"{what} key `{given}` is used twice {within}"
            problems.add("E114", message, place, "give each its own `key`")
        taken.update(() if given is None else (given,))
    keys = []
    for given, default, _ in wanted:
        key = given if given is not None else number_key(default, taken)
        taken.add(key)
        keys.append(key)
    return keys


def number_key(name: str, taken: set[str]) -> str:
    """Return a name that is not taken: itself, or with `-2`, `-3` … added."""
    key, number = name, 1
    while key in taken:
        number += 1
        key = f"{name}-{number}"
    return key


def report_text(error: SpecError, node: Node, problems: Problems) -> None:
    """Report what is wrong with a text at the line that the error names."""
    line = error.where.line if error.where else None
    problems.add(error.code, error.message, node.place_of_line(line), error.hint)


def report_template(error: SpecError, node: Node, problems: Problems) -> None:
    """Report a template that does not compile at its place.

    An unknown config name was reported already.
    """
    if not isinstance(error, UnresolvedConfig):
        report_text(error, node, problems)
