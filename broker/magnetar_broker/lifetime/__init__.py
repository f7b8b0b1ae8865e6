"""When messages and subscriptions are deleted: expiry, quotas, trimming, orphaned segments."""
