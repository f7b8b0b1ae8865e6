"""Pages over HTTP for operators: metrics and health, and the rules for every request."""
