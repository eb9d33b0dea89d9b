"""The runs of a folder in a local web page, with the front end of the report file.

    request ──► server (sockets) ──► guard (access) ──► read_api (routes) ──► catalog

All content about a run comes from `reports`; this package controls access and page sizes.
"""
