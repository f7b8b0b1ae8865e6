"""Conversion of entries to rows: the schema of a query, and the columns of its batches."""
