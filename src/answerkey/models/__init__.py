"""Who answers: built-in models, models behind an endpoint, and how any reply is read."""

from answerkey.models.batching import require_batches
from answerkey.models.budget import Budget, Price
from answerkey.models.builtin import OPTIONS_HINT, ConstantModel, LongestModel, OverlapModel, RandomModel
from answerkey.models.calls import Adapted, BatchLeft, BatchSeen, Call, Event, Finished, Retried, call_key
from answerkey.models.configs import (
    CustomConfig,
    InferenceConfig,
    ModelConfig,
    PlaceholderConfig,
    ProviderConfig,
    UrlConfig,
    is_live,
    read_name,
)
from answerkey.models.connecting import connect
from answerkey.models.connections import ApiStyle, Connection, Tls
from answerkey.models.draws import Draws
from answerkey.models.generation import Generation
from answerkey.models.hosts import Address, Caller
from answerkey.models.inference import FUNCTION as INFERENCE_FUNCTION
from answerkey.models.inference import LATER_FUNCTION as LATER_INFERENCE_FUNCTION
from answerkey.models.inference import SnippetModel
from answerkey.models.live import LiveModel
from answerkey.models.message import is_trace, read_message
from answerkey.models.model import BUILTIN_MODELS, Model, missing_parts, open_model
from answerkey.models.prices import find_price
from answerkey.models.providers import API_NAMES, PROVIDERS, ApiName
from answerkey.models.secret import Origin, Secret
from answerkey.models.simulated import SimulatedModel
from answerkey.models.styles import Adapter

__all__ = [
    "API_NAMES",
    "BUILTIN_MODELS",
    "INFERENCE_FUNCTION",
    "LATER_INFERENCE_FUNCTION",
    "OPTIONS_HINT",
    "PROVIDERS",
    "Adapted",
    "Adapter",
    "Address",
    "ApiName",
    "ApiStyle",
    "BatchLeft",
    "BatchSeen",
    "Budget",
    "Call",
    "Caller",
    "Connection",
    "ConstantModel",
    "CustomConfig",
    "Draws",
    "Event",
    "Finished",
    "Generation",
    "InferenceConfig",
    "LiveModel",
    "LongestModel",
    "Model",
    "ModelConfig",
    "Origin",
    "OverlapModel",
    "PlaceholderConfig",
    "Price",
    "ProviderConfig",
    "RandomModel",
    "Retried",
    "Secret",
    "SimulatedModel",
    "SnippetModel",
    "Tls",
    "UrlConfig",
    "call_key",
    "connect",
    "find_price",
    "is_live",
    "is_trace",
    "missing_parts",
    "open_model",
    "read_message",
    "read_name",
    "require_batches",
]
