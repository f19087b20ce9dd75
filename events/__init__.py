"""Event types, their codec, and the append-only SQLite log that holds them."""
