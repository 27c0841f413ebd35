"""The pages of the console: each module has the functions that answer for one of them."""
