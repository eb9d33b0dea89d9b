"""Does a score hold when the options are in another order? Metrics and their text."""
