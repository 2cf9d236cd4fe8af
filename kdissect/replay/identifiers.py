"""The keys by which a replay knows things: one table of aliases for tuples.

They are plain tuples and not classes, since hot code makes one for each partition of each request.

| alias             | fields                                    | what it identifies                         |
| ----------------- | ----------------------------------------- | ------------------------------------------ |
| `TopicPartition`  | topic, partition                          | a partition, mostly by its captured name   |
| `ProducerKey`     | producer id, producer epoch               | a captured producer                        |
| `Route`           | captured connection, node of the target   | the connection by which batches are sent   |
| `RecordPosition`  | batch in its request, record in its batch | a record of a captured Produce request     |
| `FetchSessionKey` | server, session id                        | a captured fetch session                   |
| `MemberKey`       | group, member id                          | a captured member of a group               |
| `ClientKey`       | host, client id                           | a captured client, on all its connections  |
| `NodeKey`         | captured connection, node of the target   | what a connection has at one node          |
"""

from typing import TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
ProducerKey: TypeAlias = tuple[int, int]
Route: TypeAlias = tuple[int, int]
RecordPosition: TypeAlias = tuple[int, int]
FetchSessionKey: TypeAlias = tuple[str, int]
MemberKey: TypeAlias = tuple[str, str]
ClientKey: TypeAlias = tuple[str, str | None]
NodeKey: TypeAlias = tuple[int, int]
