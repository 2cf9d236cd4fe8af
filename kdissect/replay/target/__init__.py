"""What on the target stands for what in the capture: leaders, ids, producers, members, fetch sessions, offsets."""
