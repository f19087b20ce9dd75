"""The search as a functional core: ``evolve`` folds events, ``decide`` says what is next.

Nothing in here may know the time, a random source, a file or a socket: everything that
steers the search arrives as a logged event.
"""
