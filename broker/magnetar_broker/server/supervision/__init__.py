"""The supervisor, and the child processes that it forks, watches and restarts."""
