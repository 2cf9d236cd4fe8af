"""From capture files to segments by connection: pass one, which reads packet headers only.

`inputs` finds and opens files (`storage`), `formats` reads their records, `index` cuts them into splits.
`scan` reads one split: `packets` reads headers down to TCP, `flow_table` collects the segments of each
connection, and `segment_index` packs them as descriptors, a few bytes each, that say where payload lies.
`dedup` recognises packets captured twice.
"""
