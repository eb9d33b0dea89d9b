"""What a model's tokens cost, where that is known."""

from __future__ import annotations

import importlib
from typing import Any

from answerkey.models.budget import Price
from answerkey.models.connections import Connection

#: Tokens for which a price is asked; few enough for the price of an ordinary request.
_TOKENS = 1000


def find_price(connection: Connection) -> Price | None:
    """Return what a token of the model costs in USD; None when nobody knows.

    The package `genai-prices`, where it is installed, knows the models of providers at their own addresses.
    """
    try:
        prices: Any = importlib.import_module("genai_prices")
    except ImportError:
        return None
    usage = prices.Usage(input_tokens=_TOKENS, output_tokens=_TOKENS)
    try:
        found = prices.calc_price(usage, model_ref=connection.model or "", provider_api_url=connection.url)
    except LookupError:
        return None
    return Price(float(found.input_price) / _TOKENS, float(found.output_price) / _TOKENS)
