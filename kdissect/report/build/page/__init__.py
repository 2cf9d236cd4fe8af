"""The data of the HTML page: one JSON value, made from a summary and its partial."""
