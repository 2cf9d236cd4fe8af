"""Rewriting of single requests, without state: values by role, other versions, batches.

In: decoded requests and batches as captured. Out: the same with the values of the target.

| module          | what it rewrites                                                              |
| --------------- | ----------------------------------------------------------------------------- |
| `names`         | names and ids of topics, groups, transactional ids, instances and clients     |
| `roles`         | every field of a request by its role in the schema                            |
| `versions`      | a request in another version of its API, and what that loses                  |
| `batch_rewrite` | producer, epoch, sequence and time in the header of a batch                   |
"""
