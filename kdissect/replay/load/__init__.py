"""The capture as a sequence to replay: requests in order, which may be sent, and what each depends on.

In: captures, filters and settings. Out: a `ReplayInput`.

| module                    | what it finds out                                                        |
| ------------------------- | ------------------------------------------------------------------------ |
| `requests`                | all requests in time order, with their responses (`Request`, `Capture`)  |
| `request_table`           | the same as rows of bytes on disk, and objects when they are wanted      |
| `replay_items`            | what is decided about each of them (`ReplayItem`), in columns            |
| `selection`               | which of them the filters select                                         |
| `policy`                  | which of them may be sent at all                                         |
| `analysis`                | `load`: one look at every request, which puts the rest together          |
| `replay_input`            | the result: `ReplayInput`, with a `ReplayItem` for each request          |
| `captured_cluster`        | ids, addresses and topics of the captured cluster                        |
| `request_order`           | order of group members, and of requests that write the same state        |
| `retries`                 | which batches are retries, and which come before others                  |
| `captured_reads`, `captured_shares` | what reads, commits and share groups come after          |
| `captured_fetch_sessions` | what fetch sessions are about, also those that are older than the capture |
| `prior_members`           | members that are older than the capture                                  |
| `connection_groups`       | which connections one process must replay                                |
| `anchors`                 | the response that a client had seen last                                 |
| `repeated_messages`       | messages that come again, decoded once                                   |
| `spool`, `decoded_cache`  | frames and decoded requests on disk                                      |
| `row_file`                | rows of numbers on disk: requests, and results of a run                  |

A replay log has the requests of captures for later:

| module                    | what it does                                                             |
| ------------------------- | ------------------------------------------------------------------------ |
| `log_files`               | the files of a log, and what it says beside its rows                     |
| `frame_places`            | where the bytes of a frame lie in a capture                              |
| `request_shapes`, `shaped_messages` | which requests teach the same, and in which numbers they differ |
| `log_part`, `log_merge`   | what each task of Spark writes, and how one log is made of it            |
| `known_requests`, `learned_shapes` | which requests of a log need no look, and what they tell        |
| `log_requests`            | the requests of a log, as `requests` returns those of captures           |
"""
