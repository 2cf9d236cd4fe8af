"""Reports as text for a terminal, as JSON, and as an HTML page; only values of the model come in.

`report_text`, `comparison_text`, `upgrade_text` and `topic_clients_text` each have a `render` for one kind of
result. The sections of a report are in `header`, `finding_text`, `profile_table`, `ranking_tables`,
`error_tables` and `quality`. Below them, `terminal` is what the reader's screen can show, and `table` and
`cells` fit tables into it.
"""
