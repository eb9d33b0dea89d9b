"""Comparisons of runs, or of prompt variants, on the same samples, and the power analysis that
plans them.
"""
