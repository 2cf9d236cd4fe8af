"""The model of a report, made from merged figures."""
