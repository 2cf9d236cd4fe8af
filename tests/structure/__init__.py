"""Rules for the source as a whole, checked as a whole: names, imports, lengths, tests, links."""
