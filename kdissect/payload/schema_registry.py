"""Schemas from a registry over HTTP, by the interface of Confluent, which Apicurio and others offer too.

In come a URL and credentials, out go schemas (`registry_schemas`). Credentials are sent over HTTPS only, and
redirections are not followed. A response has at most MOST_BYTES and must come within TIMEOUT_S. After
FAILURES failures in a row nothing is asked for any more.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, NoReturn

from kdissect.errors import UserError
from kdissect.payload.registry_schemas import MOST_BYTES, RegistrySchemas

TIMEOUT_S = 10
FAILURES = 3


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Another address must not get what was meant for this one."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        """Return None: do not go there."""


class SchemaRegistry(RegistrySchemas):
    """The schemas of a registry. It can be pickled: each process then asks the registry for itself."""

    def __init__(self, url: str, credentials: str | None = None) -> None:
        """Raise UserError for a URL that cannot be used; `credentials` are user:password."""
        scheme = _scheme(url)
        if scheme not in ("http", "https"):
            raise UserError(f"{url!r} is not the URL of a schema registry; example: https://registry:8081")
        if credentials and scheme != "https":
            raise UserError("credentials for a schema registry are sent over https only")
        self._url = url.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if credentials:
            self._headers["Authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"
        self._failures = 0

    def _get(self, path: str) -> dict[str, Any] | None:
        if self._failures >= FAILURES:
            raise ValueError("the schema registry does not answer")
        # The scheme is http or https: `__init__` refuses others.
        request = urllib.request.Request(self._url + path, headers=self._headers)  # noqa: S310
        try:
            with self._opener().open(request, timeout=TIMEOUT_S) as response:
                data = response.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == HTTPStatus.NOT_FOUND:
                return None
            self._fail(f"the schema registry answers {error.code}")
        except (OSError, ValueError, HTTPException) as error:
            self._fail(f"the schema registry cannot be reached: {getattr(error, 'reason', error)}")
        self._failures = 0
        if len(data) > MOST_BYTES:
            raise ValueError(f"its schema has more than {MOST_BYTES:,} bytes")
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        raise ValueError("the schema registry answers with something else than a schema")

    def _opener(self) -> urllib.request.OpenerDirector:
        return urllib.request.build_opener(_NoRedirection, urllib.request.ProxyHandler({}))

    def _fail(self, reason: str) -> NoReturn:
        self._failures += 1
        raise ValueError(reason)


def _scheme(url: str) -> str | None:
    """Return the scheme of a URL; None if it has no host, or no valid port."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_place = parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts.scheme if is_place else None
