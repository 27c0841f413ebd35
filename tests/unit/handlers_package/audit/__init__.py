"""A package below the package."""
