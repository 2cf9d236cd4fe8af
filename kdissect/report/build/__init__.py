"""From merged partials to values of the model.

`report` makes a whole `Summary`: with `rankings` and `profile`, `topic_table`, `connection_totals`,
`locations` of errors and faults, and `data_quality`. `compare`, `check_upgrade` and `find_topic_clients` make
the results of `diff`, `ready` and `who`. `page` makes the data of the HTML page.
"""
