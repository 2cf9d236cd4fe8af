"""Questions to a merged partial: facts of connections, names of topics, and figures of calls by any grouping.

`call_table` groups calls, and `figures` adds up the groups. Before that, `alike_connections` adds up the rows
of many connections that no ranking tells apart. `connection_facts` and `topic_names` fill in what a row of a
partial refers to.
"""
