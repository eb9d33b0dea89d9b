"""Gates: rules that a run's numbers must meet, read from policies, decided when the run is
complete.
"""
