"""Who answers: the built-in models, and how any reply is read."""

from answerkey.models.builtin import OPTIONS_HINT, ConstantModel, LongestModel, OverlapModel, RandomModel
from answerkey.models.draws import Draws
from answerkey.models.message import is_trace, read_message
from answerkey.models.model import BUILTIN_MODELS, Model, missing_parts, open_model
from answerkey.models.simulated import SimulatedModel

__all__ = [
    "BUILTIN_MODELS",
    "OPTIONS_HINT",
    "ConstantModel",
    "Draws",
    "LongestModel",
    "Model",
    "OverlapModel",
    "RandomModel",
    "SimulatedModel",
    "is_trace",
    "missing_parts",
    "open_model",
    "read_message",
]
