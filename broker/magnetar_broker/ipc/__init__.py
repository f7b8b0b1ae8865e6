"""Links: how the processes of one broker, or of several, ask and notify each other."""
