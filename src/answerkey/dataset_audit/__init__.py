"""Audits of a dataset's questions: whether they can be answered, and how far guessing gets."""
