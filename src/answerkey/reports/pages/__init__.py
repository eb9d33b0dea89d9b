"""Runs as plain values for pages: what the report file, the viewer, plots and notebooks show."""
