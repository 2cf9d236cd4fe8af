"""The course of events: what a report that shows time needs beside totals, counted only where it is asked for."""
