"""Databases: connections, transactions, the SQL of each, and what their errors mean."""
