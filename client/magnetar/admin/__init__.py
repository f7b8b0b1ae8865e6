"""A client for the admin API of a broker."""
