"""The plain codec: messages to dicts and lists, and back to the same bytes.

- `wire` has the primitive types: how each is read and written, and what is wrong with bytes.
- `decode` and `encode` compile a message at one version to the closures that read and write it.
- `messages` is the entry point: whole frames with their headers, bodies, and messages carried inside `bytes`.
"""
