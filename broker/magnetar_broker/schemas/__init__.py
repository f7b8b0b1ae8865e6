"""The schema registry: versions of a topic's schema, compatibility, parsers of the types."""
