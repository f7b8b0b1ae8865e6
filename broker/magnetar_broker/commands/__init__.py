"""The commands for operators that do not run the broker: each in a module of its own."""
