"""Runs compared on the same samples, variants of a prompt among them, and comparisons planned
beforehand.
"""
