"""The directory of names in a broker of several processes: its workers, and their load."""
