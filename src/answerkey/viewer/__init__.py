"""Runs in a local web page: the front end of the report file, with the runs of a folder behind it.

    request ──► server (sockets) ──► guard (who asks, how) ──► read_api (what is asked) ──► catalog

Everything that is told about a run is made by `reports`; this package decides who is told how much
at once.
"""
