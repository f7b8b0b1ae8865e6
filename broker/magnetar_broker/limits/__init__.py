"""The limits and rates that apply to one topic."""
