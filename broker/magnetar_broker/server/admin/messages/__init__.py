"""Messages of topics over HTTP: reading, searching, skipping, and dead letters."""
