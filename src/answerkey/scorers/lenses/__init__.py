"""How other harnesses read an answer from the same text: one lens for each, for the audit only.

Each is written from a description of what the harness does, not from its code. A lens never guesses: where
the harness would draw at random, or ask another model, it reads nothing.
"""

from __future__ import annotations

from answerkey.scorers.lenses import by_cue, by_marker, by_place
from answerkey.scorers.lenses.lens import Lens

LENSES: dict[str, Lens] = {
    lens.name: lens
    for lens in (
        by_cue.LM_EVAL,
        by_cue.LIGHTEVAL,
        by_cue.OPENCOMPASS,
        by_place.HELM,
        by_marker.INSPECT,
        by_marker.EVALSCOPE,
        by_marker.SIMPLE_EVALS,
        by_marker.MMLU_PRO,
        by_cue.VLMEVALKIT,
        by_marker.OLMES,
        by_place.COMPL_AI,
        by_place.OPENAI_EVALS,
        by_place.DEEPEVAL,
    )
}

__all__ = ["LENSES", "Lens"]
