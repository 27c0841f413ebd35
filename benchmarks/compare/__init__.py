"""What becomes of committed events under faults, with postroom and with other ways to deliver."""
