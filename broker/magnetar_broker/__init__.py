"""The broker: topics, subscriptions, dispatch, sessions; `server` is its asyncio shell."""
