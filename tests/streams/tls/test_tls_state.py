"""`streams.tls.tls_state`: a new sender, and the words that the table of connections has for its facts."""

from kdissect.streams.tls.tls_state import Decryption, HandshakeOutcome, Peer


def test_a_new_sender_has_sent_nothing_and_shares_nothing() -> None:
    peer, other = Peer(), Peer()
    assert (peer.opener, peer.pending, peer.sealed) == (None, None, 0)
    assert [peer.changed, peer.finished, peer.spoke, peer.closing] == [False] * 4
    assert peer.records is not other.records
    assert peer.messages is not other.messages


def test_facts_are_written_as_the_words_that_docs_name() -> None:
    assert {str(each) for each in HandshakeOutcome} == {
        "completed",
        "failed",
        "unanswered",
        "unfinished",
        "not_seen",
    }
    assert f"{Decryption.NO_KEYS} {Decryption.WHOLE}" == "no_keys whole"
