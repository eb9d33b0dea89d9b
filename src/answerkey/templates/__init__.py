"""The two template levels: `<< config.x >>` once at load, `{{ sample.x }}` per row; and row filters."""

from answerkey.templates.config import ConfigValue, embed_config, find_config_names, find_whole
from answerkey.templates.rendering import TemplateStopped
from answerkey.templates.template import (
    ACTION_NAMES,
    DATASET_NAMES,
    FilterOp,
    RowFilter,
    Sifted,
    Template,
    UnresolvedConfig,
)
from answerkey.templates.values import JsonText, RowError

__all__ = [
    "ACTION_NAMES",
    "DATASET_NAMES",
    "ConfigValue",
    "FilterOp",
    "JsonText",
    "RowError",
    "RowFilter",
    "Sifted",
    "Template",
    "TemplateStopped",
    "UnresolvedConfig",
    "embed_config",
    "find_config_names",
    "find_whole",
]
