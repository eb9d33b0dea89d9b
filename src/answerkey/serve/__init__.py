"""Runs in a local web page: the front end of the report file, with the runs of a folder behind it.

    request ──► server (the wire) ──► guard (who asks, how) ──► routes (what is asked) ──► catalog

Everything that is told about a run is made by `reports`; this room decides who is told, and how much at once.
"""
