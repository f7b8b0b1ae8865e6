"""Cursors of a topic, and state that is stored with them."""
