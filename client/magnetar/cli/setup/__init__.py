"""Keys, tokens, certificates and the configuration of a broker that is open to other hosts."""
