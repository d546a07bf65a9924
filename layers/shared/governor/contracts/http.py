"""Requests of the HTTP API, payload format 2.0, and the form in their body."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from pydantic import AfterValidator, AliasPath, BeforeValidator, Field

from governor.contracts.parsing import Event
from governor.errors import InputError

_LONGEST_BODY = 10_000
_LONGEST_SIGNED_BODY = 200_000
"""Slack sends the whole message back with the press of a button."""
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 60
"""A digest has a box for each of its questions."""


class HttpRequest(Event):
    """Takes all that a client can send: API Gateway bounds it, and an error here would count as
    ours."""

    method: Annotated[str, AfterValidator(str.upper)] = Field(
        validation_alias=AliasPath("requestContext", "http", "method")
    )
    user_arn: str | None = Field(
        default=None,
        validation_alias=AliasPath("requestContext", "authorizer", "iam", "userArn"),
        min_length=1,
        max_length=2048,
    )
    route_key: str = Field(default="", alias="routeKey")
    path: Annotated[str, AfterValidator(partial(quote, safe="/%:@,+&="))] = Field(
        "/", alias="rawPath"
    )
    """Encoded: as it comes where API Gateway leaves it so, and again what it has decoded."""
    path_parameters: Annotated[
        Mapping[str, str], BeforeValidator(lambda found: {} if found is None else found)
    ] = Field(default_factory=dict, alias="pathParameters")
    raw_query_string: str = Field(default="", alias="rawQueryString")
    headers: Annotated[
        Mapping[str, str],
        AfterValidator(lambda found: {key.lower(): value for key, value in found.items()}),
    ] = Field(default_factory=dict)
    cookies: Sequence[str] = ()
    body: str | None = None
    is_base64_encoded: bool = Field(default=False, alias="isBase64Encoded")

    def query(self) -> dict[str, str]:
        """Return the query's fields, from the raw text: API Gateway joins repeated ones by commas.
        This and the other methods raise InputError for what is missing, too long, repeated or not
        readable."""
        return _fields(self.raw_query_string)

    def cookie_values(self) -> dict[str, str]:
        """Return the cookies by name, but for those that come twice with different values."""
        found: dict[str, set[str]] = {}
        # API Gateway takes them out of the headers; a proxy in front of it may not.
        for pair in ";".join([*self.cookies, self.headers.get("cookie", "")]).split(";"):
            name, equals, value = pair.strip().partition("=")
            if equals:
                found.setdefault(name, set()).add(value)
        return {name: values.pop() for name, values in found.items() if len(values) == 1}

    def caller(self) -> str:
        """Return the ARN that API Gateway has authenticated by IAM."""
        if self.user_arn is None:
            raise InputError("the request was not authenticated by IAM")
        return self.user_arn

    def json_object(self) -> dict[str, Any]:
        try:
            found = json.loads(self.raw_body()) if self.body else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise InputError("the body must be a JSON object")
        return found

    def raw_body(self) -> bytes:
        body = self.body or ""
        if len(body) > _LONGEST_SIGNED_BODY:
            raise InputError("the body is too long")
        if not self.is_base64_encoded:
            return body.encode()
        try:
            return base64.b64decode(body, validate=True)
        except ValueError as error:
            raise InputError("the body is not readable") from error

    def form(self) -> dict[str, str]:
        if not self.body:
            return {}
        if len(self.body) > _LONGEST_BODY:
            raise InputError("the form is too long")
        try:
            text = self.raw_body().decode()
        except UnicodeDecodeError as error:
            raise InputError("the form is not readable") from error
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise InputError(f"the form must be {_FORM}")
        return _fields(text)


def _fields(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            max_num_fields=_MOST_FIELDS,
            errors="strict",
            strict_parsing=bool(text),
        )
    except ValueError as error:
        raise InputError("the fields of the request are not readable") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise InputError("a field of the request stands twice")
    return fields
