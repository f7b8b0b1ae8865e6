"""Subscriptions: joining, acknowledging, seeking, skipping, and counting the backlog."""
