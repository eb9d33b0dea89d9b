"""Gates: rules from policies that a run's numbers must meet, decided when the run is complete."""
