"""The index of a capture: one fast pass over all record headers that cuts files into splits."""
