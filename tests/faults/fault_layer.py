"""Commands in a process whose writes, flushes, renames and connections fail when told.

`fault_layer.c` stands between the process and the system. One process imports everything once; each
command is a fork of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Kinds of operations, as `fault_layer.c` numbers them.
WRITE, SYNC, RENAME, CREATE, REMOVE, SEND, RECEIVE, CONNECT = (1 << place for place in range(8))
GROWING = WRITE | SYNC | RENAME | CREATE
CHANGING = GROWING | REMOVE
NETWORK = SEND | RECEIVE | CONNECT
#: Seconds that no command takes.
LONG_WAIT = 600

#: Reads one order after the other, carries it out in a fork, and writes what came of it.
DRIVER = r"""
import ctypes, importlib, json, os, pkgutil, sys, warnings

import answerkey

warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside the threads of a library
for module in pkgutil.walk_packages(answerkey.__path__, "answerkey."):
    if not module.name.startswith(("answerkey.viewer", "answerkey.testing", "answerkey.__main__")):
        importlib.import_module(module.name)
answerkey.spec.load_plan(os.environ.pop("FAULT_EXAMPLE"), answerkey.spec.Options())
layer = ctypes.CDLL(os.environ.pop("FAULT_LAYER"))
del os.environ["LD_PRELOAD"]


def carry_out(order):
    for number, name in ((1, "out"), (2, "err")):
        handle = os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
    os.environ.update(order["environment"])
    fault = [order[name] for name in ("kinds", "number", "error", "lasts")]
    layer.arm_faults(os.fsencode(order["folder"]), *fault)
    code = answerkey.cli.main(order["words"])
    with open(order["count"], "w") as file:
        file.write(str(layer.count_operations()))
    sys.exit(code)


for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        carry_out(json.loads(line))
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@dataclass(frozen=True)
class Fault:
    """Which operation fails and how: the one with this number among those of these kinds (0: none).

    With `lasts` all later ones fail as well.
    """

    kinds: int = 0
    number: int = 0
    error: int = 0
    lasts: bool = False


@dataclass(frozen=True)
class Done:
    """What a command did, and how many operations it was seen to make."""

    code: int
    out: str
    err: str
    operations: int | None


@dataclass
class FaultyProcess:
    """Carries out commands under faults; what they say is written to `talk`."""

    driver: subprocess.Popen[str]
    console: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def call(
        self, *words: object, folder: Path, fault: Fault | None = None, **environment: object
    ) -> Done:
        """Carry out a command; only files below `folder`, and connections, meet the fault."""
        fault = fault or Fault()
        files = {name: str(self.console / name) for name in ("out", "err", "count")}
        (self.console / "count").unlink(missing_ok=True)
        order: dict[str, Any] = {
            **files,
            "words": [str(word) for word in words],
            "folder": str(folder.resolve()),
            "environment": {name: str(value) for name, value in environment.items()},
            **vars(fault),
        }
        if self.driver.stdin is None or self.driver.stdout is None:
            raise RuntimeError("the driver has pipes")
        self.driver.stdin.write(json.dumps(order) + "\n")
        self.driver.stdin.flush()
        code = int(self.driver.stdout.readline())
        counted = self.console / "count"
        operations = int(counted.read_text()) if counted.exists() else None
        return Done(
            code, Path(files["out"]).read_text(), Path(files["err"]).read_text(), operations
        )


def can_build() -> bool:
    """Return whether the layer can be built here: Linux with a C compiler."""
    return sys.platform == "linux" and shutil.which("cc") is not None


@contextmanager
def start_process(folder: Path, example: Path) -> Iterator[FaultyProcess]:
    """Yield a process that carries out commands like that on the project `example`.

    Its own files are in `folder`.
    """
    library = folder / "fault_layer.so"
    source = Path(__file__).with_suffix(".c")
    flags = ["-shared", "-fPIC", "-O1", "-D_LARGEFILE64_SOURCE", "-U_FORTIFY_SOURCE"]
    subprocess.run(["cc", *flags, "-o", str(library), str(source), "-ldl"], check=True)  # noqa: S607 - the compiler of this machine
    loaded = {
        "LD_PRELOAD": str(library),
        "FAULT_LAYER": str(library),
        "FAULT_EXAMPLE": str(example),
    }
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **loaded},
    )
    try:
        yield FaultyProcess(driver, folder)
    finally:
        driver.communicate(timeout=LONG_WAIT)
