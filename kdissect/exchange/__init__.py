"""Pass two: pieces of connections become streams, frames, paired exchanges, and the rows of the public tables."""
