"""Causes that lie with clients and topics: each is named where it is told, and not for what looks like it."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.incidents.client_causes import CLIENT_CAUSES
from kdissect.report.incidents.load_causes import LOAD_CAUSES
from kdissect.report.model.findings import Severity
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, background, causes_of, fetch, impatient, produce, refused


def metadata(line, at_ms, topic="orders", error=0):
    """Ask for one topic."""
    found = {"error_code": error, "name": topic, "partitions": []}
    response = {"brokers": [], "controller_id": 1, "topics": [found]}
    line.call(at_ms, 1, ApiKey.METADATA, 1, {"topics": [{"name": topic}]}, response)


def missing_topic(story):
    line = story.connect("10.1.0.2", client_id="bad", at_ms=9900)
    for number in range(8):
        metadata(line, 10_000 + 1000 * number, "oders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def new_topic(story):
    line = story.connect("10.1.0.2", client_id="good", at_ms=9900)
    for number in range(2):
        metadata(line, 10_000 + 100 * number, "invoices", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    produce(line, 10_400, topic="invoices")


def created_again(story, *, refused=True):
    """A topic gets another id; its writer is refused for two seconds meanwhile, or is not."""
    line = story.connect("10.1.0.2", client_id="writer")
    for at_ms in range(100, 29_000, 200):
        gone = refused and 10_000 <= at_ms < 12_000
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if gone else 0
        produce(line, at_ms, topic="audit", error=code, offset=at_ms)
    for number in range(2):
        named = {"name": "audit", "topic_id": bytes(15) + bytes([7 + number]), "partitions": []}
        request = {"topics": [{"topic_id": bytes(16), "name": "audit"}]}
        response = {"brokers": [], "controller_id": 1, "topics": [named], "cluster_id": None}
        line.call(5_050 + 10_000 * number, 1, ApiKey.METADATA, 12, request, response)


def topics_of_one_name(story):
    """Two clusters in one capture."""
    created_again(story, refused=False)


def quota(story, throttle_ms=300):
    line = story.connect("10.1.0.2", client_id="greedy", at_ms=9900)
    for number in range(6):
        produce(line, 10_000 + 1000 * number, throttle_ms=throttle_ms)


def little_quota(story):
    quota(story, throttle_ms=20)


def metadata_storm(story):
    line = story.connect("10.1.0.2", client_id="asker", at_ms=9900)
    for number in range(300):
        metadata(line, 10_000 + 30 * number)


def lists_topics(story):
    line = story.connect("10.1.0.2", client_id="admin", at_ms=9900)
    for number in range(30):
        metadata(line, 10_000 + 10 * number)


def describes_configs(story, count, every_ms):
    line = story.connect("10.1.0.2", client_id="tool", at_ms=9900)
    for number in range(count):
        request = {"resources": [], "include_synonyms": False}
        answer = {"throttle_time_ms": 0, "results": []}
        line.call(10_000 + every_ms * number, 1, ApiKey.DESCRIBE_CONFIGS, 1, request, answer)


def admin_storm(story):
    describes_configs(story, 400, 25)


def admin_looks_at_settings(story):
    describes_configs(story, 80, 10)
    describes_configs(story, 20, 500)


def connection_storm(story):
    for number in range(80):
        line = story.connect("10.1.0.2", client_id="opener", at_ms=10_000 + 100 * number)
        produce(line, 10_005 + 100 * number)
        line.close(10_050 + 100 * number)


def starts_at_once(story):
    for number in range(40):
        line = story.connect("10.1.0.2", client_id="job", at_ms=10_000 + 5 * number)
        produce(line, 10_400 + 5 * number)


def retry_storm(story):
    line = story.connect("10.1.0.2", client_id="hasty", at_ms=9900)
    for number in range(300):
        produce(line, 10_000 + 20 * number, error=ErrorCode.NOT_ENOUGH_REPLICAS)


def retries_with_pauses(story):
    line = story.connect("10.1.0.2", client_id="patient", at_ms=9900)
    for number in range(15):
        produce(line, 10_000 + 1000 * number, error=ErrorCode.NOT_ENOUGH_REPLICAS)


def commits(story, every_ms):
    line = story.connect("10.1.0.2", client_id="eager", at_ms=9900)
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [partition]}]
    request = {"group_id": "readers", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": topics}
    found = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
    for number in range(10_000 // every_ms):
        line.call(10_000 + every_ms * number, 2, ApiKey.OFFSET_COMMIT, 3, request, found)


def commit_storm(story):
    commits(story, 10)


def commits_a_few_times_a_second(story):
    commits(story, 100)


def transactions(story, ends):
    line = story.connect("10.1.0.2", client_id="bank", at_ms=9900)
    producer = {"transactional_id": "tx", "producer_id": 9, "producer_epoch": 0}
    for number, is_committed in enumerate(ends):
        produce(line, 10_000 + 500 * number)
        line.call(10_100 + 500 * number, 1, ApiKey.END_TXN, 1, producer | {"committed": is_committed}, {})


def transactions_aborted(story):
    transactions(story, [True, True, *[False] * 20])


def aborts_now_and_then(story):
    transactions(story, [True, False, False] * 10)


def tiny_batches(story):
    line = story.connect("10.1.0.2", client_id="tiny", at_ms=9900)
    for number in range(1500):
        produce(line, 10_000 + 5 * number, count=1, took_ms=1)


def many_full_batches(story):
    line = story.connect("10.1.0.2", client_id="busy", at_ms=9900)
    for number in range(1500):
        produce(line, 10_000 + 5 * number, count=60, took_ms=1)


def hot_partition(story):
    line = story.connect("10.1.0.2", client_id="skewed", at_ms=900)
    for number in range(300):
        produce(
            line,
            1000 + 50 * number,
            count=200,
            partition=0 if number % 20 else 1 + number % 3,
            topic="skewed",
        )


def even_partitions(story):
    line = story.connect("10.1.0.2", client_id="even", at_ms=900)
    for number in range(300):
        produce(line, 1000 + 50 * number, count=200, partition=number % 4, topic="even")


def version(line, at_ms, software):
    """Name the client's software."""
    request = {"client_software_name": "checkout", "client_software_version": software}
    line.call(at_ms, 1, ApiKey.API_VERSIONS, 3, request, {"error_code": 0, "api_keys": []})


def new_version(story, *, is_worse):
    for number in range(2):
        old = story.connect(f"10.1.0.{2 + number}", client_id=f"checkout-{number}")
        version(old, 1, "1.4.0")
        for at_ms in range(100, 9_000, 400):
            produce(old, at_ms)
        old.close(9_500)
        new = story.connect(f"10.1.0.{2 + number}", client_id=f"checkout-{number}", at_ms=10_000)
        version(new, 10_001, "1.5.0")
        for at_ms in range(10_100, 24_000, 400):
            produce(new, at_ms, error=ErrorCode.MESSAGE_TOO_LARGE if is_worse else 0)


def bad_deployment(story):
    new_version(story, is_worse=True)


def good_deployment(story):
    new_version(story, is_worse=False)


def old_client(story, *, is_served=False):
    for number in range(6):
        line = story.connect("10.1.0.2", client_id="old", at_ms=10_000 + 500 * number)
        request = {"acks": 1, "timeout_ms": 1000, "topic_data": []}
        if is_served:
            line.call(10_001 + 500 * number, 1, ApiKey.PRODUCE, 0, request, {"responses": []})
        else:
            line.ask(10_001 + 500 * number, ApiKey.PRODUCE, 0, request)
        line.close(10_005 + 500 * number, by_client=is_served)


def served_old_client(story):
    old_client(story, is_served=True)


def dies_after_each_start(story, life_ms=2_000, every_ms=2_500):
    for begin_ms in range(5_000, 24_000, every_ms):
        lines = [
            story.connect("10.1.0.2", (f"10.0.0.{node}", 9092), client_id="crashing", at_ms=begin_ms)
            for node in (1, 2)
        ]
        for line in lines:
            produce(line, begin_ms + 100)
            line.close(begin_ms + life_ms)


def dies_after_each_start_and_asks_for_brokers_first(story):
    """Its first connection is closed before it opens the others, as that of librdkafka."""
    for begin_ms in range(5_000, 24_000, 2_500):
        asks = story.connect("10.1.0.2", client_id="crashing", at_ms=begin_ms)
        metadata(asks, begin_ms + 1)
        asks.close(begin_ms + 10)
        works = story.connect("10.1.0.2", client_id="crashing", at_ms=begin_ms + 100)
        produce(works, begin_ms + 200)
        works.close(begin_ms + 2_000)


def goes_on_by_another_connection(story):
    """Each connection is opened before the last one ends."""
    dies_after_each_start(story, life_ms=3_000)


CASES = {
    "restart_loop": (dies_after_each_start, goes_on_by_another_connection),
    "quota": (quota, little_quota),
    "record_too_large": (refused(ErrorCode.MESSAGE_TOO_LARGE), refused(0)),
    "invalid_timestamp": (refused(ErrorCode.INVALID_TIMESTAMP), refused(0)),
    "setting_refused": (refused(ErrorCode.INVALID_TOPIC_EXCEPTION), refused(0)),
    "topic_recreated": (created_again, topics_of_one_name),
    "missing_topic": (missing_topic, new_topic),
    "metadata_storm": (metadata_storm, lists_topics),
    "admin_storm": (admin_storm, admin_looks_at_settings),
    "commit_storm": (commit_storm, commits_a_few_times_a_second),
    "transactions_aborted": (transactions_aborted, aborts_now_and_then),
    "request_timeout_short": (impatient(), impatient(age_ms=190)),
    "connection_storm": (connection_storm, starts_at_once),
    "retry_storm": (retry_storm, retries_with_pauses),
    "tiny_batches": (tiny_batches, many_full_batches),
    "hot_partition": (hot_partition, even_partitions),
    "deployment": (bad_deployment, good_deployment),
    "unsupported_version": (old_client, served_old_client),
}


def test_every_cause_has_a_case():
    assert {cause.name for cause in (*CLIENT_CAUSES, *LOAD_CAUSES)} == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_cause_comes_first_in_its_own_story(name: str, tmp_path: Path) -> None:
    assert causes_of(CASES[name][0], tmp_path)[0] == name


@pytest.mark.parametrize("name", CASES)
def test_what_looks_like_a_cause_is_not_it(name: str, tmp_path: Path) -> None:
    assert name not in causes_of(CASES[name][1], tmp_path)


def test_a_reader_that_repeats_fetches_of_a_topic_that_is_gone_follows_from_that(tmp_path: Path) -> None:
    def topic_gone(story):
        asks = story.connect("10.1.0.2", client_id="asks", at_ms=9900)
        repeats = story.connect("10.1.0.3", client_id="repeats", at_ms=9900)
        for number in range(8):
            metadata(asks, 10_000 + 1000 * number, "gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for number in range(300):
            produce(repeats, 10_000 + 20 * number, topic="gone", error=ErrorCode.UNKNOWN_TOPIC_ID)

    causes = causes_of(topic_gone, tmp_path)
    assert causes[0] == "missing_topic"
    assert "retry_storm" not in causes


def test_a_first_connection_that_is_soon_closed_is_no_life_of_its_own(tmp_path: Path) -> None:
    assert causes_of(dies_after_each_start_and_asks_for_brokers_first, tmp_path)[0] == "restart_loop"


def test_a_misspelt_topic_leads_to_the_one_that_was_meant(tmp_path: Path) -> None:
    story = Story()
    background(story)
    missing_topic(story)
    (incident, *_) = analyzed(story, tmp_path).incidents
    assert incident.subject.name == "bad at 10.1.0.2"
    assert "topic oders" in incident.headline
    assert "it probably means topic orders, which is there" in incident.headline


def test_a_topic_that_is_created_meanwhile_is_a_note(tmp_path: Path) -> None:
    """Members of one application ask for a topic that it makes itself, and then read it."""
    story = Story()
    background(story)
    for number, name in enumerate(("first", "second")):
        line = story.connect(f"10.1.0.{2 + number}", client_id=name, at_ms=9900)
        for at_ms in range(10_000, 17_000, 700):
            metadata(line, at_ms, "orders-counts-repartition", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        produce(line, 18_000, topic="orders-counts-repartition")
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.severity.value) == ("missing_topic", "note")
    assert incident.headline.endswith("; it was created meanwhile")
    assert len(incident.impact.clients) == 2


def test_a_topic_of_an_application_is_not_taken_for_that_of_another_one(tmp_path: Path) -> None:
    story = Story()
    background(story)
    other = story.connect("10.1.0.3", client_id="other")
    produce(other, 5_000, topic="sales-app-counts-repartition")
    line = story.connect("10.1.0.2", client_id="app", at_ms=9900)
    for at_ms in range(10_000, 20_000, 1000):
        for topic in ("costs-app-counts-repartition", "oders"):
            metadata(line, at_ms, topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    (incident,) = analyzed(story, tmp_path).incidents
    assert "(topic oders, costs-app-counts-repartition)" in incident.headline
    assert incident.headline.endswith("it probably means topic orders, which is there")


def test_a_client_that_fails_from_its_begin_on_is_dated_to_its_begin(tmp_path: Path) -> None:
    story = Story()
    background(story)
    line = story.connect("10.1.0.2", client_id="bad", at_ms=10_000)
    metadata(line, 10_001)
    for number in range(6):
        produce(line, 12_000 + 1000 * number, error=ErrorCode.MESSAGE_TOO_LARGE)
    summary = analyzed(story, tmp_path)
    begin_ms = (summary.incidents[0].begin_ns - summary.capture.first_time_ns) / 1e6
    assert 9_900 < begin_ms < 10_100


def test_a_client_that_is_too_old_names_its_versions_and_since_when(tmp_path: Path) -> None:
    story = Story()
    background(story)
    old_client(story)
    (incident, *_) = analyzed(story, tmp_path).incidents
    assert "old at 10.1.0.2 uses versions that brokers no longer speak: Produce v0" in incident.headline
    assert "6 requests got no response from " in incident.headline


def test_a_topic_that_was_there_before_is_gone_for_all_of_its_clients(tmp_path):
    """Both repeat what is refused very often; that follows from the topic that was deleted."""
    story = Story()
    background(story)
    for number, name in enumerate(("writer", "other")):
        line = story.connect(f"10.1.0.{2 + number}", client_id=name)
        for at_ms in range(100 + number, 29_000, 40):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if at_ms >= 12_000 else 0
            produce(line, at_ms, topic="audit", error=error, offset=at_ms)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.subject.name) == ("missing_topic", "audit")
    assert incident.headline.startswith("Topic audit is gone since ")
    assert "other at 10.1.0.3, writer at 10.1.0.2" in incident.headline


@pytest.mark.parametrize(
    ("every_ms", "each", "severity"),
    [(10, 1, Severity.NOTE), (10, 3, Severity.WARNING), (4, 1, Severity.WARNING)],
)
def test_commits_after_each_batch_are_a_note_until_they_are_very_many(every_ms, each, severity, tmp_path):
    story = Story()
    background(story)
    commits(story, every_ms)
    line = story.connect("10.1.0.2", client_id="eager", at_ms=9900)
    for number in range(10_000 // every_ms // each):
        fetch(line, 10_000 + every_ms * each * number, number, number + 1)
    (incident,) = [one for one in analyzed(story, tmp_path).incidents if one.cause == "commit_storm"]
    assert incident.severity == severity


def test_commits_that_nobody_answers_any_more_belong_to_their_storm(tmp_path):
    """One commit after each batch, 50 a second, and the coordinator does not keep up."""
    story = Story()
    background(story)
    commits(story, 20)
    line = story.connect("10.1.0.2", client_id="eager", at_ms=9900)
    for number in range(500):
        fetch(line, 10_000 + 20 * number, number, number + 1)
    late = story.connect("10.1.0.2", client_id="eager", at_ms=9900)
    request = {"group_id": "readers", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": []}
    for number in range(50):
        late.ask(12_000 + 100 * number, ApiKey.OFFSET_COMMIT, 3, request)
    found = analyzed(story, tmp_path).incidents
    assert (found[0].cause, found[0].severity) == ("commit_storm", Severity.WARNING)
    assert "requests_unanswered" not in {one.cause for one in found}


@pytest.mark.parametrize(("slow_until_ms", "is_blamed"), [(28_000, True), (18_000, False)])
def test_a_deployment_is_blamed_for_latency_that_stays(slow_until_ms, is_blamed, tmp_path):
    def deployed(story):
        old = story.connect("10.1.0.2", client_id="checkout-1")
        version(old, 1, "1.4.0")
        for at_ms in range(100, 9_000, 100):
            produce(old, at_ms)
        old.close(9_500)
        new = story.connect("10.1.0.2", client_id="checkout-1", at_ms=10_000)
        version(new, 10_001, "1.5.0")
        for at_ms in range(10_100, 28_000, 100):
            produce(new, at_ms, took_ms=60 if 11_000 <= at_ms < slow_until_ms else 2)

    assert ("deployment" in causes_of(deployed, tmp_path)) == is_blamed
