"""Whether a number holds when the options are in another order: metrics and their text."""
