"""The path of every run, and the functions that follow it: run, score, check, resume, rescore.

job ─────► checks ──► chunk ───────► evaluate ─────► run, rerun
everything every      one chunk      the jobs of a   the commands
opened     row        of rows        run
"""
