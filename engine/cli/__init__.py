"""The command line: data to stdout, everything for people to stderr."""
