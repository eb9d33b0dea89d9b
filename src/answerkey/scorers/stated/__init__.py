"""How the answer that a text states is found: units, cues, statements, one decision."""
