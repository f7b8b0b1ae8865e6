"""Rates of publishing, delivering and subscribing: who exceeds one waits for a turn."""
