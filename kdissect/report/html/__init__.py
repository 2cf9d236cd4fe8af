"""The report as one HTML file: a summary and the course of events become data, data and assets a page without requests."""
