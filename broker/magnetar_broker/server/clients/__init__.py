"""Sockets of clients: accepted, authenticated, passed between workers, and joined to sessions."""
