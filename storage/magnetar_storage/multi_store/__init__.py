"""One store over several store directories, some of which are open in other processes."""
