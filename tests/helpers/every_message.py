"""All messages of the schema, in the order of their API keys, as parameters of tests."""

from kdissect.protocol.schema.registry import APIS, MESSAGES

REQUESTS_AND_RESPONSES = [message for api in APIS.values() for message in (api.request, api.response)]
ALL_MESSAGES = [*REQUESTS_AND_RESPONSES, *MESSAGES.values()]  # with those that other messages carry
ALL_PROGRAMS = [  # API key, version, whether it is the response
    (key, version, response)
    for key, api in APIS.items()
    for version in api.versions
    for response in (False, True)
]
