"""What happened: the files of a run, and the comparison with the capture made from these files alone."""
