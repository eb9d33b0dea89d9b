"""Coverage-guided search for bytes that break a law, with atheris: `python fuzz.py NAME
-max_total_time=60`.

Words after the name are libFuzzer's. Without a name, or with `all`, every law has its turn in a
process of its own, and one line for each says how many inputs were tried. What breaks a law is kept
in the folder named by `FUZZ_KEPT` (default: the current one), and the exit code is not 0.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.law import Law

ROOT = Path(__file__).resolve().parents[2]
#: By how a law's name begins: the packages whose branches atheris watches. To watch all takes half
#: a minute.
WATCHED = {
    "judge": ("answerkey.scorers",),
    "pattern": ("answerkey.scorers",),
    "choices": ("answerkey.scorers",),
    "template": ("answerkey.templates", "jinja2"),
    "config": ("answerkey.templates", "jinja2"),
    "shown": ("answerkey.text", "answerkey.exporters", "answerkey.reports.markdown"),
    "yaml": ("answerkey.spec.nodes", "ruamel.yaml"),
    "task": ("answerkey.spec",),
    "reply": ("answerkey.models", "answerkey.scorers.choice_probabilities"),
    "recorded": ("answerkey.models", "answerkey.scorers.choice_probabilities"),
    "batch": ("answerkey.models",),
    "row_filter": ("answerkey.templates",),
    "http": ("answerkey.models",),
    "log": ("answerkey.importers", "answerkey.models.responses"),
    "archive": ("answerkey.importers",),
    "run": ("answerkey.runs", "answerkey.reports"),
}
ELSE_WATCHED = ("answerkey.datasets",)
LIMITS = ("-timeout=25", "-rss_limit_mb=3000", "-max_len=16384", "-print_final_stats=1")
_COUNT = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def load_laws() -> dict[str, Law]:
    """Return every law by name; the project is found beside this file."""
    sys.path.insert(0, str(ROOT))
    from tests.fuzz.targets import TARGETS

    return TARGETS


def list_modules() -> Iterator[str]:
    """Yield the names of all modules of the project, without importing any."""
    source = ROOT / "src"
    for path in source.rglob("*.py"):
        yield ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def search(name: str, words: Sequence[str]) -> None:
    """Try inputs for one law until libFuzzer's limits are reached; does not return."""
    import atheris

    # What was imported before is not watched: nothing of the project is loaded until here.
    rooms_of_kind = [rooms for kind, rooms in WATCHED.items() if name.startswith(kind)]
    watched = next(iter(rooms_of_kind), ELSE_WATCHED)
    packages = sorted({room.partition(".")[0] for room in watched})
    passed_over = [module for module in list_modules() if not module.startswith(watched)]
    how = {"include": packages, "exclude": passed_over, "enable_loader_override": False}
    with atheris.instrument_imports(**how):
        laws = load_laws()
    if name not in laws:
        sys.exit(f"there is no law `{name}`: {', '.join(laws)}")
    from tests.fuzz.changing import change_json
    from tests.fuzz.law import LONGEST, open_folder

    law = laws[name]
    folder = open_folder() / "corpus"
    folder.mkdir()
    for number, seed in enumerate(law.seeds()):
        (folder / f"seed-{number:03d}").write_bytes(seed)
    dictionary = folder.with_suffix(".dict")
    words_of_law = law.words or (b"\0",)  # libFuzzer refuses a dictionary without words
    lines = [f'"{write_word(word)}"\n' for word in words_of_law]
    dictionary.write_text("".join(lines), encoding="ascii")
    artifacts = Path(os.environ.get("FUZZ_KEPT", "."), f"{name}-")
    options = [*LIMITS, f"-artifact_prefix={artifacts}", f"-dict={dictionary}", *words, str(folder)]

    def change(raw: bytes, most: int, seed: int) -> bytes:
        changed = change_json(bytes(raw), Random(seed)) if seed % 3 else bytes(raw)
        if changed != raw and len(changed) <= most:
            return changed
        return bytes(atheris.Mutate(raw, most))

    has_json = any(change_json(seed, Random(0)) != seed for seed in law.seeds())
    mutator = {"custom_mutator": change} if has_json else {}
    atheris.Setup([sys.argv[0], *options], lambda raw: law.check(bytes(raw[:LONGEST])), **mutator)
    atheris.Fuzz()


def write_word(word: bytes) -> str:
    """Return a word as libFuzzer's dictionaries write it."""
    return "".join(f"\\x{byte:02x}" for byte in word[:60])


def search_all(words: Sequence[str]) -> int:
    """Give every law its turn; return how many were broken."""
    broken = 0
    for name in load_laws():
        with tempfile.TemporaryDirectory() as folder:
            homes = dict.fromkeys(("TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), folder)
            done = subprocess.run(
                [sys.executable, __file__, name, *words],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                env=os.environ | homes,
            )
        count = _COUNT.search(done.stderr)
        ending = "holds"
        if done.returncode:
            broken += 1
            ending = f"BROKEN\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        print(f"{name}: {count[1] if count else '?'} inputs, {ending}", flush=True)  # noqa: T201
    return broken


def main() -> int:
    """Search for one law, or for all."""
    arguments = sys.argv[1:]
    name = arguments.pop(0) if arguments and not arguments[0].startswith("-") else "all"
    if name == "all":
        return 1 if search_all(arguments) else 0
    search(name, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
