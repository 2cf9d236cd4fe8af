"""Reports: batches of the public tables become partial summaries, those one `Summary`, that text or JSON.

`partials.summarise` runs where tables are made, `partials.merge` anywhere, `compose.compose` once;
`text.render` and `json.to_json` show the result.
"""
