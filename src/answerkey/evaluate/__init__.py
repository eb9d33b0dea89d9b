"""The one path of a task, and the functions that take it: run, score, check, resume, rescore.

prepare ──► checks ──► pipeline ──► runner
everything  rows       shard by     the run
opened                 shard        closed
"""
