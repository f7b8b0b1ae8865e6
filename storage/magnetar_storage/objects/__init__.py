"""Stores of objects, such as S3: their contract, and what is built on the contract alone."""
