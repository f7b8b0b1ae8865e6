"""Subscriptions and their consumers: who joins, what is acknowledged, where reading goes on."""
