"""Audits of a dataset's questions: can they be answered, and how far does one get without
knowledge?
"""
