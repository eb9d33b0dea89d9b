"""What a Ray worker does with a shard; see `ray_engine`."""

from __future__ import annotations

import gc
import os
from functools import lru_cache

from answerkey._version import __version__
from answerkey.engines.worker import Loaded, answer_shard, describe_error, load_function
from answerkey.errors import EngineError

_load_once = lru_cache(maxsize=2)(load_function)


def apply_function(version: str, function: bytes, shard: bytes) -> bytes:
    """Return the answer to a shard, as a worker process of this machine gives it."""
    if version != __version__:
        message = f"a node has answerkey {__version__}, and the work was sent by {version}"
        return describe_error(EngineError("E601", message, hint="install one version on every node"))
    # One task for each core: the column library, not loaded so far, needs no threads beside them.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    loaded: Loaded = _load_once(function)
    gc.disable()
    try:
        return answer_shard(loaded, shard)
    finally:
        gc.enable()
