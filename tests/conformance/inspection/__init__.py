"""What every inspector has to answer, on each database."""
