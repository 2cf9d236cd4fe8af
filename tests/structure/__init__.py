"""What holds for the source as a whole, and is checked as a whole: names, imports, lengths, tests, links."""
