"""The Jinja that rows are rendered with: sandboxed, strict, and looking for a column before a dict method."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateRuntimeError, Undefined, UndefinedError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from answerkey.templates.jinja_filters import FILTERS
from answerkey.templates.plain import explain_missing, fail_undefined, make_printable
from answerkey.templates.trouble import MissingName

#: Larger products and powers are refused before they are computed.
MOST_ELEMENTS: Final = 10_000_000
MOST_BITS: Final = 1_000_000


class StrictName(StrictUndefined):
    """A name that is not there: to use it fails, to print a list of it too; the error lists what is there."""

    __slots__ = ()

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,  # noqa: ANN401 - Jinja's own signature
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        super().__init__(hint, obj, name, exc)
        if exc is UndefinedError and hint is None and obj is not missing:
            # Jinja calls this with its own message; ours is built only when the error is really raised.
            self._undefined_exception = self._explain  # type: ignore[assignment]

    def _explain(self, _message: str) -> MissingName:
        return explain_missing(self._undefined_obj, self._undefined_name)

    def __repr__(self) -> str:
        return str(self)


class RowEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox: values can be read, not changed; private attributes are out of reach."""

    intercepted_binops = frozenset(["*", "**"])

    def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401 - Jinja's own signature
        """Return `obj.attribute`; of a mapping the key first, then one of the methods of a dict."""
        if isinstance(obj, Mapping):
            if attribute in obj:
                return obj[attribute]
            if not hasattr(dict, attribute):
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:  # noqa: ANN401 - Jinja's own signature
        """Return `obj[argument]`; of a mapping only ever a key."""
        if isinstance(argument, Undefined):
            fail_undefined(argument)
        if not isinstance(obj, Mapping):
            return super().getitem(obj, argument)
        try:
            return obj[argument]
        except (KeyError, TypeError):
            return self.undefined(obj=obj, name=argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - same
        """Return a product or a power, unless it would be absurdly large."""
        if operator == "*":
            _check_product(left, right)
        elif isinstance(left, int) and isinstance(right, int) and left.bit_length() * right > MOST_BITS:
            raise OverflowError(f"the power {left} ** {right} is too large")
        return super().call_binop(context, operator, left, right)


def _check_product(left: object, right: object) -> None:
    for many, times in ((left, right), (right, left)):
        if (
            isinstance(many, (str, list, tuple))
            and isinstance(times, int)
            and len(many) * times > MOST_ELEMENTS
        ):
            raise OverflowError(f"repeating a value {times} times makes it too large")


@cache
def open_environment() -> RowEnvironment:
    """Return the one environment of all templates."""
    environment = RowEnvironment(
        extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
        undefined=StrictName,
        finalize=make_printable,
        autoescape=False,
    )
    environment.filters.update(FILTERS)
    return environment
