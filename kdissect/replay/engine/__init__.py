"""The run: which request is sent when, from the first moment to the last answer."""
