from __future__ import annotations

import polars as pl

from answerkey.metrics import Design
from answerkey.metrics.measure import label_rows, name_clusters, name_groups
from answerkey.types import Samples

IDS = pl.Series(["a", "b", "c"])


def test_a_design_names_the_columns_it_needs() -> None:
    """Groups come first, then the cluster."""
    assert Design(("subject", "level"), "passage").columns == ("subject", "level", "passage")
    assert Design().columns == ()


def test_labels_are_the_text_of_the_values() -> None:
    """Numbers and truth values are written as metrics write them; null stays null."""
    samples = Samples(
        pl.DataFrame({"x": [1.5, None, 2.0], "y": [True, False, None], "z": ["q", None, ""]}), IDS
    )
    assert label_rows(samples, "x").to_list() == ["1.5", None, "2.0"]
    assert label_rows(samples, "y").to_list() == ["True", "False", None]
    assert label_rows(samples, "z").to_list() == ["q", None, ""]


def test_encoded_columns_are_decoded() -> None:
    """What is stored as JSON text is labelled by its value."""
    samples = Samples(pl.DataFrame({"x": ['"A"', "3", None]}), IDS, encoded=frozenset({"x"}))
    assert label_rows(samples, "x").to_list() == ["A", "3", None]


def test_samples_without_a_group_form_one() -> None:
    """They are shown together, under a name of their own."""
    assert name_groups(pl.Series(["x", None])).to_list() == ["x", "(none)"]


def test_samples_without_a_cluster_stand_alone() -> None:
    """Nothing says that they belong together."""
    found = name_clusters(pl.Series("c", ["x", None, None]), IDS)
    assert found.n_unique() == 3
    assert found[0] == "x"
