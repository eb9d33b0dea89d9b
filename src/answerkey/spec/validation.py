"""A node is validated by a pydantic model: every mistake is reported at its place.

Scorers, metrics, solvers and sources state their YAML fields as a frozen dataclass; a model is
made of its annotations and those of nested dataclasses, so that unknown keys are refused at every
depth. What the formats name and this release does not do is refused by name.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import operator
import re
import types
from collections.abc import (
    Iterator,
    Mapping,
    Sequence,
)
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
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from answerkey.errors import (
    AnswerkeyError,
    Place,
    SpecError,
    find_near,
    listing,
    suggest,
)
from answerkey.models.config import Secret
from answerkey.spec.nodes import (
    BROKEN,
    Node,
    Problems,
    prune,
    to_plain,
)
from answerkey.spec.yaml_text import ELLIPSES, ELLIPSIS_HINT
from answerkey.templates import UnresolvedConfig

M = TypeVar("M", bound=BaseModel)
#: Annotations are read and made at run time, and any dataclass may be built from them.
Hint = Any
Built = Any

# Numbers that YAML 1.1 spells in its own ways (`1_000`, `0x1F`, `0o17`, `0b101`) are text; only a
# field that asks for a number reads them. `010` is refused there: YAML 1.1 means 8 by it, YAML 1.2
# means 10.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
#: Python itself refuses to print longer ones back.
_MAX_DIGITS = 300


def advise_leading_zero(value: object) -> str | None:
    """Return a hint for text that is one number in YAML 1.1 and another one in YAML 1.2."""
    if isinstance(value, str) and _LEADING_ZERO.fullmatch(value.strip()):
        return "a leading 0 may mean octal or nothing: leave it out, or write `0o10` for 8"
    return None


def parse_whole(text: str) -> int | None:
    """Return the whole number that a text spells, or None."""
    trimmed = text.strip()
    if len(trimmed) > _MAX_DIGITS or not _INTEGER.fullmatch(trimmed):
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
    """Accept a whole number as the text of its digits; nothing else is converted."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _read_number(value: object) -> object:
    """Return the number that a text spells; refuse true and false, which pydantic would accept."""
    number = parse_number(value) if isinstance(value, str) else value
    is_endless = isinstance(number, float) and not math.isfinite(number)
    if number is None or isinstance(number, bool) or is_endless:
        raise PydanticCustomError("float_type", "must be a number")
    return number


def _read_whole(value: object) -> object:
    """Return the whole number that a text spells; refuse `1.0`, true and false."""
    if advise_leading_zero(value):
        raise PydanticCustomError("leading_zero", "must be a whole number")
    if isinstance(value, bool | float):
        raise PydanticCustomError("int_type", "must be a whole number")
    if isinstance(value, str):
        number = parse_whole(value)
        return value if number is None else number
    return value


def _read_secret(value: object) -> object:
    return Secret(value, "written") if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_read_text)]
Whole = Annotated[int, BeforeValidator(_read_whole)]
Number = Annotated[float, BeforeValidator(_read_number)]
Key = Annotated[Text, Field(pattern=r"^[a-zA-Z0-9_\-]+$", min_length=1, max_length=250)]
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
    model = create_model(
        built.__name__,
        __base__=Fields,
        __module__=__name__,
        **members,
    )
    model.built_class = built
    return model


def extend_fields(
    model: type[Fields], name: str, base: type[Fields], **members: Hint
) -> type[Fields]:
    """Return `model` with the common fields of `base`, and some members of its own."""
    return create_model(
        name,
        __base__=(model, base),
        __module__=__name__,
        **members,
    )


_PLAIN: dict[Any, Any] = {str: Text, int: Whole, float: Number, object: Any}
_ANNOTATED: Hint = Annotated


def _convert(hint: Hint) -> Hint:
    """Return an annotation with lenient scalars, and dataclasses replaced by their models."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return fields_of(hint)
    origin: Hint = get_origin(hint)
    if origin is None or origin is Literal:
        return hint
    arguments = tuple(map(_convert, get_args(hint)))
    if origin is Annotated:
        return _ANNOTATED[(arguments[0], *get_args(hint)[1:])]
    if origin in {Union, types.UnionType}:
        return _unite(arguments)
    return origin[arguments]


def _unite(arguments: Sequence[Hint]) -> Hint:
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
    models = _ANNOTATED[(functools.reduce(operator.or_, tagged), pydantic.Discriminator(read_tag))]
    plain = (argument for argument in arguments if argument not in tags.values())
    return functools.reduce(operator.or_, plain, models)


def _list_tags(model: type[BaseModel]) -> tuple[str, ...]:
    if "type" not in model.model_fields:
        return ()
    return get_args(model.model_fields["type"].annotation)


def build(value: Any) -> Built:  # noqa: ANN401 - fields, or what they hold
    """Return the dataclass that a model's values describe, with all that is in it."""
    if isinstance(value, Fields) and value.built_class is not None:
        kind: Any = value.built_class
        names = [field.name for field in dataclasses.fields(kind) if hasattr(value, field.name)]
        return kind(**{name: build(getattr(value, name)) for name in names})
    if isinstance(value, tuple | list):
        return type(value)(map(build, value))
    if isinstance(value, dict):
        return {key: build(entry) for key, entry in value.items()}
    return value


def try_build(
    fields: Fields | None,
    node: Node,
    problems: Problems,
) -> Built:
    """Return the dataclass of a part, or None when its own checks refuse it, which is reported."""
    try:
        return build(fields)
    except AnswerkeyError as error:
        path = error.where.field if error.where else None
        if path is None:
            path = next((name for name in node.entries if f"`{name}`" in error.message), "")
        where = node.at(*path.split(".")).place
        problems.report(type(error)(error.code, error.message, where=where, hint=error.hint))
    except (TypeError, ValueError) as error:
        problems.add("E108", str(error), node.place)
    return None


_EXTRA = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
#: `<< config.x >>` that is left was reported already.
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


def validate_node(
    model: type[M],
    node: Node,
    problems: Problems,
    *,
    name: str,
) -> M | None:
    """Return the model's values, or None when a required one is missing or wrong.

    `name` is for messages. Unknown keys and unsuitable optional values are reported and left out.
    """
    if not node.is_map:
        if not node.is_broken:
            message = f"{name} must be a mapping, not {_shorten(to_plain(node))}"
            problems.add("E108", message, node.place)
        return None
    sound = node
    while True:
        try:
            return model.model_validate(to_plain(sound))
        except ValidationError as error:
            details = error.errors(include_url=False)
        if sound is node:
            # A key that is missing is not reported if an unknown key was probably meant for it.
            merged = _merge_alternatives(details)
            for detail in sorted(merged, key=lambda detail: detail["type"] == "missing"):
                _report(detail, model, node, problems, name)
        faulty = {sound.find(detail["loc"])[1] for detail in details}
        if () in faulty:
            return None
        sound = prune(sound, faulty)


def _merge_alternatives(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Keep one error for a value that fits none of several plain types.

    For a list that might have been a text, the mistakes inside the list are kept.
    """
    merged: dict[Any, ErrorDetails] = {}
    for detail in details:
        parent = detail["loc"][:-1]
        mark: Any = (parent, id(detail["input"]))
        if detail["type"] in {*_EXTRA, "missing"}:
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
    problems: Problems,
    name: str,
) -> None:
    """Report what pydantic found, unless a broken value or an unresolved config name causes it."""
    kind = detail["type"]
    loc = detail["loc"]
    value = detail["input"]
    if kind in _EXTRA:
        target, path = node.find(loc[:-1])
    else:
        target, path = node.find(loc)
    steps = ".".join(map(str, path))
    within = f" in `{steps}` of {name}" if steps else f" in {name}"
    if kind == "missing":
        if not target.is_broken and (target.place, str(loc[-1])) not in problems.misspelt:
            message = f"`{loc[-1]}` is missing{within}"
            problems.add("E108", message, target.place, f"add `{loc[-1]}: …`")
    elif kind in _EXTRA:
        _report_unknown_key(str(loc[-1]), keys_at(model, loc[:-1]), target, problems, within)
    elif value is not BROKEN and not _UNRESOLVED.search(str(value)):
        subject = f"`{steps}`" if steps else name
        is_secret = bool(_SECRETIVE.intersection(path))
        _report_value(detail, target, problems, subject, is_secret=is_secret)


def _report_value(
    detail: ErrorDetails,
    node: Node,
    problems: Problems,
    subject: str,
    *,
    is_secret: bool,
) -> None:
    value = detail["input"]
    if detail["type"] == "union_tag_invalid":
        tags = detail["ctx"]["expected_tags"].replace("'", "").split(", ")
        tag = detail["ctx"]["tag"]
        hint = suggest(tag, tags) or f"types: {listing(tags)}"
        problems.add("E109", f"unknown type {tag!r}", node.at("type").place, hint)
    elif detail["type"] == "literal_error" and str(value) in FOREIGN_KEYS:
        message = f"{subject.rstrip('`')}: {value}` of the original platform is not done"
        problems.add("E116", message, node.place, FOREIGN_KEYS[str(value)])
    else:
        message, advice = explain(detail, is_secret=is_secret)
        problems.add("E108", f"{subject} {message}", node.place, advice)


def explain(detail: ErrorDetails, *, is_secret: bool = False) -> tuple[str, str | None]:
    """Return what is wrong with a value, as the end of a sentence, and what to write instead."""
    shown = "***" if is_secret else _shorten(detail["input"])
    return _describe(detail, shown), _advise(detail)


def _report_unknown_key(
    key: str,
    keys: set[str],
    node: Node,
    problems: Problems,
    within: str,
) -> None:
    where = node.key_place(key)
    if key in FOREIGN_KEYS:
        message = f"`{key}` of the original platform is not done"
        problems.add("E116", message, where, FOREIGN_KEYS[key])
        return
    hint = f"keys there: {listing(sorted(keys))}"
    for near in find_near(key, sorted(keys)):
        problems.misspelt.add((node.place, near))
        hint = f"did you mean `{near}`?"
    problems.add("E107", f"unknown key `{key}`{within}", where, hint)


def _describe(detail: ErrorDetails, value: str) -> str:
    """Return what is wrong with a value, as the end of a sentence."""
    kind = detail["type"]
    context = detail.get("ctx", {})
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


def _advise(detail: ErrorDetails) -> str | None:
    """Return what to write instead of a value."""
    kind = detail["type"]
    value = detail["input"]
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
        return suggest(str(value), re.findall(r"'([^']*)'", detail["ctx"]["expected"]))
    return None


def _shorten(value: object) -> str:
    text = repr(value)
    if value is None or isinstance(value, bool):
        text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> set[str]:
    """Return the keys that may stand at a location of a model."""
    models = {model}
    for step in loc:
        inner: set[type[BaseModel]] = set()
        for outer in models:
            inner.update(_inner_models(outer, str(step)))
        tagged = {outer for outer in models if step in _list_tags(outer)}
        models = inner or tagged or models
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

#: Types of the original platform that are not done here, by the part of a file.
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

#: Keys of the original platform that have no place here, wherever they stand.
FOREIGN_KEYS: dict[str, str] = {
    **dict.fromkeys(("dataset_generators", "generator_specification"), _ROWS),
    **dict.fromkeys(("apps", "app"), "there are no apps here: leave it out"),
    "integrations": "keys of providers come from the environment: leave it out",
    "postprocessor": "the scorer reads the completion as it is: "
    "use `extraction`, or a `python` scorer",
    "secrets": "secrets stand at the top of the run file, beside `models`",
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
        fields = fields_of(self.registry[kind])
        kinds = (Literal[kind, kind.replace("-", "_")], ...)
        return extend_fields(fields, fields.__name__ + self.suffix, self.common, type=kinds)

    def choose(self, node: Node, problems: Problems) -> str | None:
        """Return the `type` that a node names; report a missing, unknown or foreign one.

        A type whose name has a hyphen may be written with an underscore.
        """
        if "type" not in node.entries:
            label = "dataset `source`" if self.name == "source" else f"`{self.name}`"
            message = f"`type` is missing in {label}"
            if not node.is_map:
                message = f"{label} must be a mapping with a `type`"
            if not node.is_map or not node.is_broken:
                problems.add("E108", message, node.place, f"types: {listing(self.registry)}")
            return None
        kind = node.entries["type"]
        name = str(kind.value if kind.is_scalar else None)
        for spelling in (name, name.replace("_", "-")):
            if spelling in self.registry:
                return spelling
        self._refuse(name, kind.place, problems)
        return None

    def _refuse(
        self,
        name: str,
        place: Place,
        problems: Problems,
    ) -> None:
        """Report a type that is not supported."""
        supported = f"supported: {listing(sorted(self.registry))}"
        foreign = FOREIGN_TYPES.get(self.name, {})
        if name in foreign:
            message = f"{self.name} type `{name}` of the original platform is not done"
            problems.add("E116", message, place, f"{foreign[name]}; {supported}")
        elif self.name == "solver" and name in OUTSIDE_SOLVERS:
            message = f"solver type `{name}` is outside the scope of multiple choice"
            problems.add("E303", message, place, supported)
        else:
            hint = supported
            near = suggest(name, self.registry)
            if near:
                hint = f"{near} {supported}"
            elif self.name == "scorer":
                hint = f"{supported}; for a rule of your own use a `python` scorer"
            problems.add("E109", f"unknown {self.name} type {name!r}", place, hint)

    def read(
        self,
        node: Node,
        problems: Problems,
        *,
        number: int | None = None,
    ) -> tuple[Any, Built]:
        """Return the fields of a node and the object they describe; None for what is refused.

        `number` is for messages about an entry of a list.
        """
        kind = self.choose(node, problems)
        if kind is None:
            return None, None
        node = node.having("type", replace(node.entries["type"], value=kind))
        name = f"{self.name} `{kind}`" if number is None else f"{self.name} {number} (`{kind}`)"
        fields = validate_node(self.model(kind), node, problems, name=name)
        return fields, try_build(fields, node, problems)


def assign_keys(
    candidates: Sequence[tuple[str | None, str, Place]],
    problems: Problems,
    *,
    what: str,
    within: str,
) -> list[str]:
    """Return a key for each `(given key, default, place)`; report one that is given twice (E114).

    A default that is taken is numbered: `-2`, `-3`, ….
    """
    taken: set[str] = set()
    for key, _, place in candidates:
        if key in taken:
            message = f"{what} key `{key}` is used twice {within}"
            problems.add("E114", message, place, "give each its own `key`")
        if key is not None:
            taken.add(key)
    keys = []
    for key, default, _ in candidates:
        keys.append(number_key(default, taken) if key is None else key)
        taken.add(keys[-1])
    return keys


def number_key(name: str, taken: set[str]) -> str:
    """Return a name that is not taken: itself, or with `-2`, `-3` … added."""
    key = name
    number = 1
    while key in taken:
        number += 1
        key = f"{name}-{number}"
    return key


def report_text(
    error: SpecError,
    node: Node,
    problems: Problems,
) -> None:
    """Report an error in a text at the line that it names."""
    line = error.where.line if error.where else None
    problems.add(error.code, error.message, node.place_of_line(line), error.hint)


def report_template(
    error: SpecError,
    node: Node,
    problems: Problems,
) -> None:
    """Report a template that does not compile; an unknown config name was reported already."""
    if not isinstance(error, UnresolvedConfig):
        report_text(error, node, problems)
