"""What may leave a template: plain values. Lazy ones are read out, and what is no value at all is refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, Final, NoReturn, Self, SupportsIndex, TypeGuard

from jinja2 import TemplateRuntimeError, Undefined

from answerkey.errors import listing, suggest
from answerkey.templates.trouble import MissingName
from answerkey.trace import Row

#: What goes out as it is.
SCALARS: Final = frozenset([str, int, float, bool, type(None)])
_LAZY: Final = (Iterator, AbstractSet, ValuesView, range)
_TYPE_WORDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    tuple: "a list",
    dict: "a mapping",
    Row: "a sample",
}


class PartialMapping(dict[str, object]):
    """A mapping with only the keys that a template reads; `known` has the names of all there are."""

    known: Sequence[str] = ()

    @classmethod
    def of(cls, known: Sequence[str]) -> Self:
        """Return a mapping of a table with these columns, still empty."""
        row = cls()
        row.known = known
        return row


class PartialRow(PartialMapping, Row):
    """A row with only the columns that a template reads."""


class JsonText(str):  # noqa: SLOT000 - what was read once is kept
    """Text whose fields can be read as those of the JSON that it holds, like `text | fromjson`."""

    def __getitem__(self, key: SupportsIndex | slice | str) -> object:  # type: ignore[override]  # also by name
        return self._content[key] if isinstance(key, str) else str(self)[key]

    @cached_property
    def _content(self) -> Any:  # noqa: ANN401 - whatever JSON can hold
        return json.loads(self)


def describe_type(value: object) -> str:
    """Return the word for a value's type, as a user of templates knows it."""
    for kind in type(value).__mro__:
        if kind in _TYPE_WORDS:
            return _TYPE_WORDS[kind]
    return f"a {type(value).__name__}"


def make_plain(value: object, *, keep_tuples: bool = False) -> object:
    """Return a value without anything lazy in it: generators, ranges and views become lists.

    An undefined value anywhere inside fails, and so does a function or another part of Jinja's own machinery.
    Tuples become lists too, unless they are to be printed.
    """
    if type(value) in SCALARS:
        return value
    if is_flat(value):
        return list(value)
    return _unfold(value, keep_tuples=keep_tuples)


def _unfold(value: object, *, keep_tuples: bool) -> object:
    if isinstance(value, Undefined):
        fail_undefined(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {key: make_plain(one, keep_tuples=keep_tuples) for key, one in value.items()}
    if isinstance(value, tuple) and keep_tuples:
        return tuple(make_plain(one, keep_tuples=True) for one in value)
    if _is_listed(value):
        return [make_plain(one, keep_tuples=keep_tuples) for one in value]
    return value


def check_unicode(text: str) -> None:
    """Raise ValueError for a text that cannot be written: one half of a surrogate pair is no character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(text[error.start]):04X}"
        raise ValueError(f"the text holds {half}, which is half a character") from None


def is_flat(value: object) -> TypeGuard[list[object]]:
    """Say whether a value is a list of nothing but texts, numbers and nulls."""
    return type(value) is list and SCALARS.issuperset(map(type, value))


def _is_listed(value: object) -> TypeGuard[Iterable[object]]:
    """Say whether a value becomes a list; refuse what is no value at all."""
    if isinstance(value, (list, tuple)):
        return True
    if callable(value) or type(value).__module__.startswith("jinja2"):
        raise _refuse(value)
    return isinstance(value, _LAZY)


def make_printable(value: object) -> object:
    """Return what Jinja prints in place of a value: the same, but nothing lazy in it.

    Of an `if` without `else` that does not hold Jinja prints nothing, strict or not.
    """
    return "" if type(value) is Undefined else make_plain(value, keep_tuples=True)


def fail_undefined(value: Undefined) -> NoReturn:
    """Raise the error that an undefined value stands for."""
    value._fail_with_undefined_error()  # noqa: SLF001 - there is no public name for it


def _refuse(value: object) -> TemplateRuntimeError:
    """Return the error for what is no value."""
    name = getattr(value, "__name__", type(value).__name__)
    what = "a function" if callable(value) else f"Jinja's `{name}`"
    return TemplateRuntimeError(f"the template yields {what}, which is no value")


def explain_missing(owner: object, name: object) -> MissingName:
    """Return the error for a name that `owner` does not have."""
    if isinstance(owner, Row):
        return _explain_column(owner, name)
    if isinstance(owner, Mapping):
        near = suggest(str(name), _find_names(owner))
        return MissingName(f"there is no field `{name}`", hint=_join(near, f"fields: {_list_names(owner)}"))
    if owner is None:
        return MissingName(f"null has no {_name_part(name)}", hint="the value is null in this row")
    if isinstance(owner, (list, tuple, str)) and not isinstance(name, str):
        return _explain_index(owner, name)
    return MissingName(f"{describe_type(owner)} has no {_name_part(name)}", hint=_advise(owner, name))


def explain_uncalled(owner: object, name: str) -> MissingName:
    """Return the error for a method that is used without being called; of a row it is a missing column."""
    missing = explain_missing(owner, name)
    if isinstance(owner, Row):
        return missing
    return MissingName(str(missing), hint=f"{missing.hint}; for the method write `.{name}()`")


def _explain_column(row: Row, name: object) -> MissingName:
    hint = _join(suggest(str(name), _find_names(row)), f"columns: {_list_names(row)}")
    return MissingName(f"`{name}` is not a column", hint=hint, column=str(name))


def _find_names(owner: Mapping[str, object]) -> Sequence[str]:
    return owner.known if isinstance(owner, PartialMapping) else list(owner)


def _list_names(owner: Mapping[str, object]) -> str:
    return listing(_find_names(owner))


def _explain_index(owner: list[object] | tuple[object, ...] | str, name: object) -> MissingName:
    if isinstance(name, int):
        word = "character" if isinstance(owner, str) else "value"
        size = f"{len(owner)} {word}{'' if len(owner) == 1 else 's'}"
        return MissingName(f"index {name} is outside {describe_type(owner)} of {size}", hint="the first is 0")
    return MissingName(f"{_show(name)} is not an index", hint="an index is a whole number; the first is 0")


def _advise(owner: object, name: object) -> str | None:
    if isinstance(owner, str):
        return "text that holds JSON is read with `| fromjson`"
    if isinstance(owner, (list, tuple)) and isinstance(name, str) and name.strip().isdigit():
        return f"{name!r} is text; make a number of it with `| int`"
    return None


def _name_part(name: object) -> str:
    return f"field `{name}`" if isinstance(name, str) else f"element {_show(name)}"


def _show(name: object) -> str:
    return "null" if name is None else repr(name)


def _join(near: str | None, names: str) -> str:
    return f"{near} {names}" if near else names
