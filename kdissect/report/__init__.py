"""Reports: from batches of the public tables to text, JSON and HTML, by way of a model.

    tables -> aggregate, timeline -> partials -> query -> findings, build -> model -> render

`partials.summarise` runs wherever tables are made, and `partials.merge` adds its results up. `build.report`
makes the `Summary` of a merged partial, with `query` for figures by any grouping and `findings` for what is
wrong. `build` also compares two reports, checks an upgrade, finds the clients of topics, and makes the data
of the page. `render` shows values of the `model`, and knows nothing else. `thresholds` is the grammar of
`--fail-on`, and `summary_thresholds` the conditions on a report. `wording` has short texts that all of them
share.
"""
