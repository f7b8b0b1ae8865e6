"""The session of one client: commands in, frames out.  `handlers` is the table of commands."""
