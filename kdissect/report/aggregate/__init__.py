"""Mergeable figures: what one batch of the tables contributes to a report, and how contributions add up."""
