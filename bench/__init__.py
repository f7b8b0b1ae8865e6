"""What Magnetar costs, measured beside a bare server that does the least one must."""
