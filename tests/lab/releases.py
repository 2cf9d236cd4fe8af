"""The Kafka releases the lab runs, as Maven coordinates. To try another release, add one line here."""

from __future__ import annotations

from tests.lab.maven import Release

# Kafka's own logging back end is a part of its distribution, not of its published dependencies.
_LOG4J2 = ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.3", "org.apache.logging.log4j:log4j-core:2.25.3")

# kafka-tools pulls Kafka Connect with two web frameworks; the tools used here do without.
_CONNECT = ("org.apache.kafka:connect-runtime", "org.apache.kafka:connect-json")


def modern(version: str) -> Release:
    """A release that runs without ZooKeeper (3.3 or newer)."""
    core = (f"org.apache.kafka:{artifact}:{version}" for artifact in ("kafka_2.13", "kafka-tools"))
    return Release(f"kafka-{version}", (*core, *_LOG4J2), _CONNECT)


def ancient(version: str) -> Release:
    """A release of the ZooKeeper era, from 0.8.2 to 1.x."""
    tools = () if version.startswith("0.8") else (f"org.apache.kafka:kafka-tools:{version}",)
    # Java dropped javax.xml.bind after these releases were made.
    later = ("org.slf4j:slf4j-log4j12:1.7.21", "javax.xml.bind:jaxb-api:2.3.1")
    return Release(f"kafka-{version}", (f"org.apache.kafka:kafka_2.11:{version}", *tools, *later))


CURRENT = modern("4.4.0")
EARLIER = modern("3.9.1")
OLD = ancient("0.10.2.2")
OLDER = ancient("0.9.0.1")
OLDEST = ancient("0.8.2.2")
