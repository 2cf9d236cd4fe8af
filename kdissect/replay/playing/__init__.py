"""Playing: which request goes when, from the first moment to the last answer. `running` puts all parts together."""
