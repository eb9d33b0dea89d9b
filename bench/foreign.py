"""Other harnesses, each in an environment of its own that is kept below the bench's work folder.

They are no dependencies of ours: pip installs them when they are first measured, or run by the long
series of tests. One that cannot be installed or fails is reported as such, and nothing else stops
for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORK = HERE / ".work"
ENVIRONMENTS = {
    "evalscope": ("evalscope==1.14.1",),
    "every_eval_ever": ("every-eval-ever==0.3.0",),
    "hub": ("huggingface-hub==2.4.0", "pyyaml"),
    "inspect": ("inspect-ai==0.3.285", "openai"),
    "lighteval": (
        "lighteval[litellm]==0.13.0",
        "torch==2.13.0",
        "trl==1.16.0",
        "xxhash<4",
    ),  # one torch for two
    "lm-eval": ("lm-eval[api]==0.4.13",),
    "trackers": ("mlflow==3.17.2", "wandb==0.31.0"),
}
#: Tools that want a newer Python than ours, and which they take.
NEWER = {"every_eval_ever": ("3.13", "3.12")}
PROMPTFOO_VERSION = "0.123.1"


class ForeignError(Exception):
    """Raised when a harness cannot be measured here; the message says why."""


@cache
def find_newest(name: str) -> str:
    """Return the newest version of a tool that can be installed here."""
    if name == "promptfoo":
        return run_foreign(["npm", "view", name, "version"]).strip()
    package = ENVIRONMENTS[name][0].partition("==")[0].partition("[")[0]
    listed = run_foreign([sys.executable, "-m", "pip", "index", "versions", package])
    return listed.partition("(")[2].partition(")")[0]


def open_tool(name: str, version: str | None = None) -> list[str]:
    """Return the command that starts a tool: Node and its script, or an environment's Python."""
    if name == "promptfoo":
        return open_promptfoo(version or PROMPTFOO_VERSION)
    return [open_environment(name, version)]


def open_environment(name: str, version: str | None = None) -> str:
    """Return the Python of an environment, which is created on first use.

    Another version than ours has an environment of its own, with the newest of all that goes with
    it.
    """
    pins = ENVIRONMENTS[name]
    package, _, ours = pins[0].partition("==")
    folder = WORK / "environments" / name
    if version not in {None, ours}:
        folder = folder.with_name(f"{name}-{version}")
        pins = (f"{package}=={version}", *(pin.partition("==")[0] for pin in pins[1:]))
    python, ready, requirements = folder / "bin" / "python", folder / "ready", "\n".join(pins)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two tests may want it at once
        if not ready.exists() or ready.read_text() != requirements:
            print(f"installing {' '.join(pins)} (only the first time) ...", flush=True)
            run_foreign([find_python(name), "-m", "venv", "--clear", str(folder)])
            words = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            run_foreign([*words, *pins])
            ready.write_text(requirements)
    return str(python)


def find_python(name: str) -> str:
    """Return the Python for an environment: this one, or one that is new enough for the tool."""
    for version in NEWER.get(name, ()):
        try:
            return run_foreign(
                [f"python{version}", "-c", "import sys; print(sys.executable)"]
            ).strip()
        except (ForeignError, FileNotFoundError):
            continue
    return sys.executable


def open_promptfoo(version: str = PROMPTFOO_VERSION) -> list[str]:
    """Return the command that starts promptfoo.

    Npm installs it and the Node that it needs the first time.
    """
    modules = WORK / "environments" / f"promptfoo-{version}" / "node_modules"
    command = modules / ".bin" / "promptfoo"
    if not command.exists():
        modules.parent.mkdir(parents=True, exist_ok=True)
        (modules.parent / "package.json").write_text('{"private": true}')
        packages = ["node@22", f"promptfoo@{version}"]
        run_foreign(["npm", "install", "--no-audit", "--prefix", str(modules.parent), *packages])
    return [str(modules / "node" / "bin" / "node"), str(command.resolve())]


def run_foreign(words: Sequence[str]) -> str:
    """Run a command to its end and return what it printed.

    ForeignError with its last words when it fails.
    """
    # Our own package and settings stay out of the other environment.
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
    }
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=kept)  # noqa: S603 - fixed words
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        raise ForeignError(lines[-1][:200].replace("|", "/"))
    return done.stdout


def measure_inspect(rows: Path) -> dict[str, Any]:
    """Return how many recorded samples Inspect scores again in a second: `end_to_end` and `scoring`
    alone.

    The log that it scores is made by Inspect itself, against its own mock model, and kept.
    """
    logs = WORK / "inspect-logs"
    logs.mkdir(parents=True, exist_ok=True)
    return _read_last_line(
        run_foreign(
            [open_environment("inspect"), str(HERE / "inspect_side.py"), str(rows), str(logs)]
        )
    )


def measure_lm_eval(rows: Path) -> dict[str, Any]:
    """Return how many completions lm-eval's filters and metric judge in a second: `end_to_end`."""
    return _read_last_line(
        run_foreign([open_environment("lm-eval"), str(HERE / "lm_eval_side.py"), str(rows)])
    )


def _read_last_line(output: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return result
