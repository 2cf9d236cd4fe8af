"""Incidents on real three-broker clusters, recorded with the truth beside each capture.

    network     hosts of their own addresses and a switch between them, or one machine's loopback
    forwarder   the way to one host, which can be cut, slow, lossy, too small or forgetful
    brokers     three brokers that stay up from scenario to scenario
    work        what one client does, in words that programs of every language understand
    scene       what a scenario sees: brokers, hosts, clients, chance, and the truth that it writes
    first_packet    the packet that dates an incident whose client was just started
    servers, paths, groups, requests, healthy    the scenarios, one short function each
    variants, path_variants, healthy_variants    more of them, in forms that rules were not written with
    habits, surroundings, limits, mishaps, blunders, encounters, lapses, strains    further kinds
    operations, healthy_operations    what people and boxes do to a cluster that runs, with and without harm
    health_check    a monitor that opens and closes connections, or speaks HTTP to a broker
    deaf_port       a port that answers no SYN
    closing_port    a port that closes each connection, as a proxy with nothing behind it
    record      the command: one cluster, many recordings

Chance is seeded: who, when, which broker, which languages and which background load follow from the seed.
"""
