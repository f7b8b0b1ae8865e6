"""The sink: columns of rows become the bytes of batches, which are sent and waited for."""
