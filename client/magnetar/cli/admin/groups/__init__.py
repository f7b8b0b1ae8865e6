"""The commands of `magnetar admin`: one module for each group, each with a tuple `COMMANDS`."""
