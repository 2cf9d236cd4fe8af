"""Events of TCP: round trips, retransmissions, closed windows, attempts, how connections ended."""
