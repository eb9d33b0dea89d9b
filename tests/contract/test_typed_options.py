"""The types of options are those of the options there are; `typed_options.py` is for mypy."""

from __future__ import annotations

from dataclasses import fields

from answerkey.evaluate.options import Options, RunOptions, ScoreOptions


def test_every_option_has_its_type() -> None:
    """`RunOptions` names exactly the fields of `Options`; `score` has samples and completions."""
    names = {field.name for field in fields(Options)}
    assert names == RunOptions.__optional_keys__
    assert names - ScoreOptions.__optional_keys__ == {"dataset", "completions"}
