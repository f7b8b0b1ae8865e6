"""One client: its commands in, frames out.  `handlers` is the table of commands."""
