"""Who a client is: the roles that credentials prove."""
