"""What lives in a Ray actor of ours: one object, whose methods are called; see `ray_stations`."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

from answerkey._version import __version__
from answerkey.engines.worker import answer_shard, describe_error, load_function
from answerkey.errors import EngineError


class Resident:
    """Holds what a function builds; its methods may be called by several threads."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._object: object = None
        self._trouble: bytes | None = None

    def open(self, version: str, build: bytes, address: str) -> None:
        """Build the object; what goes wrong is the answer to every call."""
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        try:
            self._trouble = self._build(version, build, address)
        finally:
            self._is_open.set()

    def call(self, method: str, given: bytes) -> bytes:
        """Return the value of a method, or its error, as a pickle that says which it is."""
        self._is_open.wait()
        if self._trouble is not None:
            return self._trouble
        return answer_shard(lambda words: getattr(self._object, method)(*words), given)

    def _build(self, version: str, build: bytes, address: str) -> bytes | None:
        if version != __version__:
            message = f"a node has answerkey {__version__}, and the work was sent by {version}"
            return describe_error(EngineError("E601", message, hint="install one version on every node"))
        function: Callable[[Any], object] | str = load_function(build)
        if isinstance(function, str):
            return pickle.dumps(("unknown", function))
        try:
            self._object = function(address)
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever calls
            return describe_error(error)
        return None
