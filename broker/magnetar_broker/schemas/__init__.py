"""The schema registry: what messages of a topic look like, version by version."""
