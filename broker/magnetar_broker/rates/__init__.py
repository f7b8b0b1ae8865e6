"""How fast anything may go."""
