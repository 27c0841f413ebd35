"""The application as its users, its operators and its faults see it.

Whatever maps a class or registers a handler runs in a process of its own: both can be done once
in a process, and the one that runs the tests is shared with those of other applications.
"""
