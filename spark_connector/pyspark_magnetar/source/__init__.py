"""The source: plans batches, reads the entries of topics, and acknowledges them."""
