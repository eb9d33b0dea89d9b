"""Run audits: how much of a run's number depends on format, position and chance (`answerkey
audit`).

The package is not called `audit`, since importing it would replace the function `answerkey.audit`.
"""
