"""The settings, a section a class."""
