"""Links: how the processes of one broker ask and notify each other."""
