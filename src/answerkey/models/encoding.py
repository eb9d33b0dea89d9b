"""JSON texts, quickly: three are made for every call."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder


def make_encoder(
    default: Callable[[object], object] = str, *, sort_keys: bool = False
) -> Callable[[object], str]:
    """Return what makes compact JSON in ASCII; `default` makes something of what JSON does not know.

    The same text comes from `json.JSONEncoder.encode`, which puts its machine together anew for each.
    """
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(separators=(",", ":"), default=default, sort_keys=sort_keys).encode
    skips_keys, takes_nan = False, True
    quote = encoder.encode_basestring_ascii
    machine = make(None, default, quote, None, ":", ",", sort_keys, skips_keys, takes_nan)
    return lambda value: "".join(machine(value, 0))
