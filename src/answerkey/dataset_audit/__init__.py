"""The questions of a dataset: whether they can be answered, and what can be got without knowing
anything.
"""
