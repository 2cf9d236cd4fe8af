"""What happened: a run's files, pair by pair, and the comparison that is made from these files alone."""
