"""The endpoints of the admin API, by subject."""
