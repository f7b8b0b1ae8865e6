"""How long messages, subscriptions and topics stay."""
