"""One store over several store directories, of which other processes have some open."""
