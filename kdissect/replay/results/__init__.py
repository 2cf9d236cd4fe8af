"""Results of a run: its files, and the comparison with the capture that is made from these files alone.

In: a `PlayedPass`. Out: `run.json` and `pairs.jsonl`, and from them a report as JSON, text and HTML.

- `run_files` writes and reads the files; `response_digest` is what of a response can be compared.
- `run_comparison` makes the report, with `run_checks` (failures without an error code) and `run_timeline`.
- `run_tables` has the tables of a report, `glossary` its words; `run_text` and `run_page` render them, the
  page with `html_elements` and `run_charts`.
- `run_verdicts` judges correctness, and has the figures that `--fail-on` may name.
"""
