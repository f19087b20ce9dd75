"""Attacks that a jail tries on itself, so that no layer is promised that does nothing."""
