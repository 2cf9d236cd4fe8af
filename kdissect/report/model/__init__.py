"""Reports as values: dataclasses that renderers show. JSON has the names of their attributes.

`summary` is a report, `comparison` of two reports, `upgrade_check` for a newer Kafka, `topic_clients` who
writes and reads a topic. `limited` is a list that ends somewhere, `plain` turns values into what JSON can
carry.
"""
