"""The figures of a report by steps of time, counted only where a page asks for them."""
