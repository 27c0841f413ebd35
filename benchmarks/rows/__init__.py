"""The rows of the table: each a function that measures, and gives figures."""
