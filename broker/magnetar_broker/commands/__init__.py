"""The commands for operators that are not the broker itself: each in a module of its own."""
