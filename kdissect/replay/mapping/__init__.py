"""What on the target stands for what in the capture: leaders and ids, producers, members, fetch sessions, positions."""
