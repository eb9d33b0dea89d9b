"""A Ray cluster: one that is there, or one of our own on this machine, which nobody else can reach."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import tempfile
import threading
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from answerkey.engines.threads import count_cores
from answerkey.errors import EngineError

_JOIN_HINT = (
    "look at `ray status`, and at the Ray version of its nodes; name another cluster with `--ray-address`, "
    "or work here with `--engine local`"
)
#: Without this, Ray gives a node the address of the machine in the network, even if told 127.0.0.1.
_LOOPBACK_SETTING = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_LOOPBACK = "127.0.0.1"
#: Shards that are read where they are worked on, and plain numbers, need little.
_STORE_BYTES = 200 * 2**20
#: A cluster that does not take a connection, or says nothing, for so many seconds is gone.
_ANSWER_SECONDS = 7.0
#: How a connection of HTTP/2 begins, with settings that say nothing.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
#: Ray keeps sockets below its folder, and their names must not be longer than a hundred characters.
_LONGEST_FOLDER = 40


def require_ray() -> None:
    """Raise E601 when Ray is not installed; it is not imported."""
    if find_spec("ray") is None:
        raise EngineError(
            "E601", "the engine `ray` needs Ray", hint="install it with `pip install ray==2.60.0`"
        )


class Cluster:
    """A connection to Ray; closing it ends what was started for it, and nothing else."""

    def __init__(self, address: str | None) -> None:
        self._before: dict[str, str | None] = {}
        self._is_ours = False
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if address is None or _is_loopback(address):
            self._set(_LOOPBACK_SETTING)
        self.ray: Any = import_module("ray")
        self._constants: Any = import_module("ray._private.ray_constants")
        if self.ray.is_initialized():
            self._refuse_second(address)
            return
        handler = signal.getsignal(signal.SIGTERM)
        try:
            self._start() if address is None else self._join(address)
        except (OSError, ValueError, RuntimeError, TimeoutError, self.ray.exceptions.RayError) as error:
            self.close()
            what = "cannot start Ray" if address is None else f"cannot reach the Ray cluster at `{address}`"
            hint = _JOIN_HINT if address else None
            raise EngineError("E601", f"{what}: {error}", hint=hint) from error
        finally:  # Ray puts one of its own in its place
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)

    def count_places(self) -> int:
        """Return how many tasks can be under way at a time."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def close(self) -> None:
        """Leave the cluster; one of our own ends with that."""
        if self._is_ours:
            self._is_ours = False
            with suppress(self.ray.exceptions.RayError, OSError, RuntimeError):
                self.ray.shutdown()
        if self._folder is not None:
            self._folder.cleanup()
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        self._before.clear()

    def _start(self) -> None:
        """Start a cluster on this machine, bound to loopback, with a token that only our processes have."""
        if "RAY_AUTH_MODE" not in os.environ:  # Ray will set it, and would keep a token in the user's home
            self._before["RAY_AUTH_MODE"] = None
            self._set({"RAY_AUTH_TOKEN": _draw_token()})
        self._is_ours = True
        # The setting is read when Ray is imported, which may have been before we came.
        self._constants.ENABLE_RAY_CLUSTER = False
        self.ray.init(
            address="local",
            num_cpus=count_cores(),
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=self._make_folder(),
            log_to_driver=False,
            logging_level="ERROR",
            _node_ip_address=_LOOPBACK,
        )
        found = {one["NodeManagerAddress"] for one in self.ray.nodes()}
        if found != {_LOOPBACK}:
            self.close()
            message = f"Ray does not keep to loopback: its node is at {', '.join(sorted(found))}"
            raise EngineError("E601", message, hint="start a cluster yourself and name it")

    def _make_folder(self) -> str | None:
        """Return a folder that ends with the cluster, and that only this user can enter; None: Ray's own."""
        if "RAY_TMPDIR" in os.environ:
            return None
        made = tempfile.TemporaryDirectory(prefix="ak-ray-", ignore_cleanup_errors=True)
        folder = str(Path(made.name) / "r")
        if len(folder) > _LONGEST_FOLDER:
            made.cleanup()
            return None
        self._folder = made
        return folder

    def _join(self, address: str) -> None:
        self._require_listening(address)
        self._is_ours = True
        self.ray.init(address=address, log_to_driver=False, logging_level="ERROR")

    def _require_listening(self, address: str) -> None:
        """Raise OSError where nobody listens, or nobody speaks HTTP/2: Ray itself would try for minutes."""
        if address == "auto":
            services: Any = import_module("ray._private.services")
            address = services.get_ray_address_from_environment(address, None)
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if not port.isdecimal():
            return  # Ray says what is wrong with it
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_SECONDS) as probe:
            probe.sendall(_GREETING)
            with suppress(ConnectionResetError):  # somebody is there, and wants TLS
                probe.recv(1)

    def _refuse_second(self, address: str | None) -> None:
        """Raise E601 when the caller's program is on another cluster than the one that is named."""
        known = self.ray.get_runtime_context().gcs_address
        if address not in (None, "auto", known):
            message = f"this program is connected to the Ray cluster at `{known}`, not `{address}`"
            raise EngineError("E601", message, hint="leave `ray_address` out, or call `ray.shutdown()` first")

    def _set(self, settings: dict[str, str]) -> None:
        for name, value in settings.items():
            self._before.setdefault(name, os.environ.get(name))
            os.environ[name] = value


def shorten(error: BaseException) -> str:
    """Return the first line of what Ray says, which can be pages."""
    return str(error).strip().partition("\n")[0]


@lru_cache(maxsize=1)
def _draw_token() -> str:
    """Return a token that is the same as long as this process lives: Ray remembers the first."""
    return secrets.token_hex(32)


def _is_loopback(address: str) -> bool:
    host = address.removeprefix("ray://").rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
