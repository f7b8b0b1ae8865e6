"""What roles may do: super-users, admins of tenants, and grants."""
