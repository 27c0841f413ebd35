"""Writes the parts of the docs that the code knows, such as names, defaults and types.

`make docs-reference` writes them; `make lint` fails if a page is not as they would be written.
"""
