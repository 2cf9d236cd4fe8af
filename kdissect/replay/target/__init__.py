"""Counterparts of the capture's objects on the target, and coroutines that find them.

In: captured values and the target's responses. Out: the target's values. Each module owns one subject, with
its state and its rules, for one pass; only the cluster outlives a pass.

| module              | subject                                                                    |
| ------------------- | -------------------------------------------------------------------------- |
| `cluster`           | nodes, leaders, topic ids, versions; requests split by leader              |
| `discover`          | questions about the target before a run: its id, topics, ends of logs      |
| `leaders`           | leaders, learnt anew when they move                                        |
| `coordinators`      | coordinators of groups and transactional ids, and requests to them         |
| `producers`         | producer ids, epochs, sequence numbers, and which transactions are open    |
| `offsets`           | positions in logs                                                          |
| `fetch_sessions`    | fetch sessions of the replayer's own                                       |
| `members`           | members of groups                                                          |
| `share_sessions`    | sessions of share groups, and records to acknowledge                       |
"""
