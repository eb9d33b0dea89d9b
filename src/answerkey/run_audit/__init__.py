"""How much of a run's number rests on format, position and chance: `answerkey audit`, and its short
form.

The package is not called `audit`: importing it would put it in place of the function
`answerkey.audit`.
"""
