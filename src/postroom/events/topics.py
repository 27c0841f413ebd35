"""Compares topic patterns with event types."""


def topic_matches(pattern: str, routing_key: str) -> bool:
    """Return whether a routing key matches: `*` is one word, `#` any number of them."""
    words = _words(routing_key)
    reached = {0}  # how many words the pattern, up to here, can stand for
    for part in _words(pattern):
        if part == "#":
            reached = set(range(min(reached), len(words) + 1))
        else:
            reached = {n + 1 for n in reached if n < len(words) and part in ("*", words[n])}
        if not reached:
            return False
    return len(words) in reached


def is_pattern(name: str) -> bool:
    """Return whether a name has `*` or `#` for words."""
    return not {"*", "#"}.isdisjoint(_words(name))


def is_topic(name: object) -> bool:
    """Return whether this is a name, or a pattern: `*` and `#` stand for whole words."""
    if not isinstance(name, str) or not name:
        return False
    return all(word in ("*", "#") or {"*", "#"}.isdisjoint(word) for word in _words(name))


def _words(key: str) -> list[str]:
    return key.split(".") if key else []
