from __future__ import annotations

import pytest

from answerkey.metrics import METRICS


def test_every_metric_type_of_the_format_is_there() -> None:
    """The types are those of task files, and one for probabilities."""
    assert list(METRICS)[:13] == [
        "mean",
        "max",
        "min",
        "std_dev",
        "frequency",
        "weighted_average",
        "precision",
        "recall",
        "f1_score",
        "binary-classification",
        "multiclass-classification",
        "calibration",
        "python",
    ]


@pytest.mark.parametrize("name", list(METRICS))
def test_metrics_are_frozen_dataclasses(name: str) -> None:
    """A metric is its fields: equal fields, equal metric, and nothing changes under way."""
    settings = getattr(METRICS[name], "__dataclass_params__", None)
    assert settings is not None
    assert settings.frozen


def test_unknown_type_is_a_key_error() -> None:
    """The registry is a mapping; what to say about an unknown type is for the reader of the file."""
    assert "median" not in METRICS
    with pytest.raises(KeyError):
        METRICS["median"]
