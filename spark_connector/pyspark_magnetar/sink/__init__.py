"""The sink: it encodes columns of rows to batches, sends these, and waits for their receipts."""
