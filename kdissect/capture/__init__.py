"""Capture files to pieces: which files there are, what packets they hold, who talked to whom and where the payload lies."""
