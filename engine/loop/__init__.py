"""The imperative shell: appends what happened, performs what the core decided."""
