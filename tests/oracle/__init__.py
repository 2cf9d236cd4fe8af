"""Programs of others, held beside kdissect: each is a command, and a small sample of it is a test."""
