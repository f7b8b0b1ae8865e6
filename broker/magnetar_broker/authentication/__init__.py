"""Authentication: the roles that credentials prove."""
