"""The settings, one class for each section."""
