"""Configuration: settings, and how they are read from a file, the environment, the command line."""

from magnetar_broker.config.domains import Durability, SubscriptionType, TopicType
from magnetar_broker.config.load import ConfigError, Loaded, load
from magnetar_broker.config.settings import Settings

__all__ = [
    "ConfigError",
    "Durability",
    "Loaded",
    "Settings",
    "SubscriptionType",
    "TopicType",
    "load",
]
