"""The metadata store on SQLite."""
