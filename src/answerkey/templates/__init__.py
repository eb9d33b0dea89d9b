"""The two template levels: `<< config.x >>` once at load, `{{ sample.x }}` per row; and row filters."""

from answerkey.templates.config import ConfigValue, embed_config
from answerkey.templates.distinct import Distinct
from answerkey.templates.isolation import TemplateStopped
from answerkey.templates.placeholders import find_config_names, find_whole
from answerkey.templates.plain import JsonText
from answerkey.templates.planner import Plan
from answerkey.templates.row_filter import ACTION_NAMES, DATASET_NAMES, FilterOp, RowFilter, Sifted
from answerkey.templates.template import Template, UnresolvedConfig
from answerkey.templates.trouble import RowTrouble

__all__ = [
    "ACTION_NAMES",
    "DATASET_NAMES",
    "ConfigValue",
    "Distinct",
    "FilterOp",
    "JsonText",
    "Plan",
    "RowFilter",
    "RowTrouble",
    "Sifted",
    "Template",
    "TemplateStopped",
    "UnresolvedConfig",
    "embed_config",
    "find_config_names",
    "find_whole",
]
