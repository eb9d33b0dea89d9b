"""Laws of prices."""

from __future__ import annotations

import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from answerkey.models import Price, connect, find_price
from answerkey.models.settings import Caller

MODEL = connect("openai/gpt-4o-mini", caller=Caller())


def test_without_the_price_list_no_price_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is an extra; without it the answer is: not known."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert find_price(MODEL) is None


def test_the_price_list_is_asked_for_the_model_at_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price of one token follows from what a thousand cost."""
    asked: dict[str, Any] = {}

    def calc_price(usage: dict[str, int], **about: str) -> SimpleNamespace:
        asked.update(about)
        return SimpleNamespace(
            input_price=Decimal("0.001") * usage["input_tokens"],
            output_price=Decimal("0.002") * usage["output_tokens"],
        )

    monkeypatch.setitem(sys.modules, "genai_prices", SimpleNamespace(Usage=dict, calc_price=calc_price))
    assert find_price(MODEL) == Price(0.001, 0.002)
    assert asked == {"model_ref": "gpt-4o-mini", "provider_api_url": MODEL.url}


def test_a_model_that_the_list_lacks_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so with LookupError."""

    def calc_price(*_: object, **__: object) -> None:
        raise LookupError

    monkeypatch.setitem(sys.modules, "genai_prices", SimpleNamespace(Usage=dict, calc_price=calc_price))
    assert find_price(MODEL) is None
