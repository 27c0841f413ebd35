"""Kill, freeze, cut, restart: real processes and real databases, and a ledger decides."""
