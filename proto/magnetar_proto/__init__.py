"""The Pulsar wire protocol, sans-I/O: frames, commands, entries, names, ids; the admin API."""
