"""Rate limits: token buckets, and the queues of connections and subscriptions that wait."""
