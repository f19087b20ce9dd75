"""Past searches again: the same core, fed from the log instead of from the world."""
