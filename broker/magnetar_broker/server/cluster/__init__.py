"""Links between the processes of several machines."""
