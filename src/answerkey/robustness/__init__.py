"""How far a number holds when options stand in another order: what is measured, and what is said of
it.
"""
