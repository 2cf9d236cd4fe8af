"""The plan of a run and the topics that it needs, before anything is sent."""
