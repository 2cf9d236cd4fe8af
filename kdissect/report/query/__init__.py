"""Questions to a merged partial: facts of connections, and figures of calls by any grouping."""
