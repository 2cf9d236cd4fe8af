"""The data of the HTML page: one JSON value, made from a summary and its partial.

`page_data` puts it together. `page_names` numbers clients, brokers, APIs and files. `pivot` has the counts
that the page adds up anew for each selection. The panels describe connections, groups, lag, and producers
with their transactions. `size_budget` keeps each part within its size.
"""
