"""Values of cells: what JSON knows, and what it does not."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from enum import StrEnum

import pytest

from answerkey.datasets.cells import plain


class Letter(StrEnum):
    """A choice as an enumeration."""

    A = "A"


class Wrapped:
    """A number in the manner of array libraries."""

    def item(self) -> int:
        """Return the plain number."""
        return 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (Letter.A, "A"),
        ((1, [Letter.A]), [1, ["A"]]),
        ({"a": (1,)}, {"a": [1]}),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-01-02T03:04:05+00:00"),
        (dt.time(1, 2), "01:02:00"),
        (dt.timedelta(days=1, seconds=3), "1 day, 0:00:03"),
        (Decimal("1.10"), "1.10"),
        (Decimal(12), 12),
        (Decimal("1E+2"), "100"),
        (b"\xff", "/w=="),
        (Wrapped(), 7),
    ],
)
def test_values_become_what_json_knows(value: object, expected: object) -> None:
    """Foreign values take the form they would have in a JSON file."""
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({1, 2}, "a value of type set"),
        ({1: 2}, "a mapping whose key 1 is not text"),
        (1j, "type complex"),
    ],
)
def test_values_without_a_json_form_are_refused(value: object, reason: str) -> None:
    """Sets, complex numbers and mappings with other keys are no cells."""
    with pytest.raises(TypeError, match=reason):
        plain([None, value])
