"""Every law by name, for Hypothesis (`test_fuzz.py`) and atheris (`fuzz.py`)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from . import files, folders, logs, replies, texts
from .apart import check_apart
from .law import Law

#: As they are checked in the process that holds them.
LAWS: dict[str, Law] = {
    **texts.make_laws(),
    **files.make_laws(),
    **replies.make_laws(),
    **logs.make_laws(),
    **folders.make_laws(),
}
#: Those that hand Parquet or Arrow to Polars.
APART = ("parquet", "arrow", "log_lighteval", "run_scores", "run_completions")
TARGETS: dict[str, Law] = {
    name: replace(law, check=partial(check_apart, name)) if name in APART else law
    for name, law in LAWS.items()
}
