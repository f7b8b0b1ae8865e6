"""TLS on the ports of the broker."""
