"""The plain codec: messages to dicts and lists, and back to the same bytes.

- `wire` has the primitive types: how each is read and written, and what is wrong with bytes.
- `decode` and `encode` make of a message at one version the closures that read and write it.
- `messages` is the door: whole frames with their headers, bodies, and messages carried inside `bytes`.
"""
