"""The data directory of a broker: its disk and stores, its files, and their repair."""
