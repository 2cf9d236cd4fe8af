"""Session timeouts of captured members that the target does not take, as the plan and the verdict say them.

A broker refuses a JoinGroup whose session timeout is outside its bounds. Nobody but its operator can change
that: the member stays out, and all that it does as a member cannot be sent.
"""

from collections.abc import Iterable, Mapping

SHORTEST_SESSION, LONGEST_SESSION = "group.min.session.timeout.ms", "group.max.session.timeout.ms"


def refused_sessions(sessions_ms: Iterable[int], bounds_ms: Mapping[str, int]) -> list[str]:
    """Return one sentence for each bound that some session timeouts do not keep; bounds by setting."""
    shortest, longest = bounds_ms.get(SHORTEST_SESSION), bounds_ms.get(LONGEST_SESSION)
    sessions = sorted(set(sessions_ms))
    sentences = []
    if shortest is not None and (short := [each for each in sessions if each < shortest]):
        sentences.append(_sentence(short, SHORTEST_SESSION, shortest))
    if longest is not None and (long := [each for each in sessions if each > longest]):
        sentences.append(_sentence(long, LONGEST_SESSION, longest))
    return sentences


def _sentence(sessions_ms: list[int], setting: str, bound_ms: int) -> str:
    first, last = sessions_ms[0], sessions_ms[-1]
    named = f"{first:,}" if first == last else f"{first:,} to {last:,}"
    return f"the target refuses sessions of {named} ms (its {setting} is {bound_ms:,})"
