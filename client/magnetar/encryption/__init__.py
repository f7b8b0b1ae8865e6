"""End-to-end encryption: payloads that only clients with the right private key can read."""
