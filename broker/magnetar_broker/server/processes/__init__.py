"""The processes of a broker: how each starts, the parts that it makes, and how it stops."""
