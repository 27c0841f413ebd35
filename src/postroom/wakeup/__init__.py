"""How a commit wakes a relay: in this process, or in another one by a notification."""
