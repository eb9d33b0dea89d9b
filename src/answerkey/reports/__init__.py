"""Runs as people and programs see them: one view, drawn for a terminal, for Markdown, for CI
servers.
"""
