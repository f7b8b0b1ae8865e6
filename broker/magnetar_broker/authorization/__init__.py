"""Authorization: super-users, admins of tenants, and grants."""
