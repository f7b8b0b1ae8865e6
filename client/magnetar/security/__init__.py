"""Authentication, TLS, and the files that they are configured in."""
