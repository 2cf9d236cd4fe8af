"""The plain codec: the bytes of a message to dicts and lists, and back to the same bytes."""
