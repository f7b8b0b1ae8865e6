"""The data of a broker in stores that several machines share: objects, and metadata."""
