"""Requests to the admin API, for `magnetar.admin.api`: one module for each kind of thing."""
