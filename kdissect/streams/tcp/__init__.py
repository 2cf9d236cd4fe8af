"""What TCP did: round trips, retransmissions, closed windows, attempts, how connections ended."""
