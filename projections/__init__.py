"""Folds over the log: what a run's events add up to, for people and for the search."""
