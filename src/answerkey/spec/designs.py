"""`group_by` and `cluster_by`: of a task for all its metrics, of a metric for itself."""

from __future__ import annotations

from answerkey.metrics import Design
from answerkey.spec.shapes import DesignFields


def build_design(fields: DesignFields | None, base: Design | None = None) -> Design:
    """Return the design that the fields describe; what they leave out is that of `base`."""
    usual = base or Design()
    if fields is None:
        return usual
    columns = [fields.group_by] if isinstance(fields.group_by, str) else fields.group_by
    correction, seed = fields.cluster_correction, fields.bootstrap_seed
    return Design(
        group_by=usual.group_by if columns is None else tuple(dict.fromkeys(columns)),
        cluster_by=usual.cluster_by if fields.cluster_by is None else fields.cluster_by,
        is_corrected=usual.is_corrected if correction is None else correction,
        seed=usual.seed if seed is None else seed,
    )
