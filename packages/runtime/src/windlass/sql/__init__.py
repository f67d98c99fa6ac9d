"""The logic that stores over SQL databases share: rows, seals, statements, checks."""
