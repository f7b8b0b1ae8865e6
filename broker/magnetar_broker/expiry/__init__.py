"""Deletion of messages and subscriptions: expiry, quotas, trimming, orphaned segments."""
