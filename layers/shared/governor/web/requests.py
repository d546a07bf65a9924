"""Requests of the HTTP API, payload format 2.0, and the forms in their bodies.

A part that is missing, repeated or not readable is refused.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from pydantic import AfterValidator, AliasPath, BeforeValidator, Field

from governor.core.errors import InputError
from governor.core.parsing import Event

_LONGEST_BODY = 10_000
_LONGEST_SIGNED_BODY = 200_000
"""The longest body of Slack, which sends the whole message back when somebody presses a button."""
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 60
"""The most fields of a form. A digest has a box for each of its questions."""


class HttpRequest(Event):
    """Any request that a client can send. This model accepts all of them, as a validation error
    would count as our fault; API Gateway limits the size.

    The methods raise InputError for a part that is missing, too long, repeated or not readable.
    """

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
    """Encoded: parts that API Gateway has decoded are encoded again, the others stay as sent."""
    path_parameters: Annotated[
        Mapping[str, str],
        BeforeValidator(lambda parameters: {} if parameters is None else parameters),
    ] = Field(default_factory=dict, alias="pathParameters")
    raw_query_string: str = Field(default="", alias="rawQueryString")
    headers: Annotated[
        Mapping[str, str],
        AfterValidator(lambda headers: {key.lower(): value for key, value in headers.items()}),
    ] = Field(default_factory=dict)
    cookies: Sequence[str] = ()
    body: str | None = None
    is_base64_encoded: bool = Field(default=False, alias="isBase64Encoded")

    def query(self) -> dict[str, str]:
        """Return the fields of the query by name; empty if there is none. They are read from the
        raw text, because API Gateway joins repeated fields by commas. Raises: InputError."""
        return _fields(self.raw_query_string)

    def cookie_values(self) -> dict[str, str]:
        """Return the cookies by name, without those that are sent twice with different values;
        empty if there are none."""
        values_by_name: dict[str, set[str]] = {}
        # API Gateway takes the cookies out of the headers; a proxy in front of it may not.
        for pair in ";".join([*self.cookies, self.headers.get("cookie", "")]).split(";"):
            name, equals, value = pair.strip().partition("=")
            if equals:
                values_by_name.setdefault(name, set()).add(value)
        cookies: dict[str, str] = {}
        for name, values in values_by_name.items():
            if len(values) == 1:
                cookies[name] = values.pop()
        return cookies

    def caller(self) -> str:
        """Return the ARN of the caller, whom API Gateway has authenticated by IAM. Raises:
        InputError for a request without one."""
        if self.user_arn is None:
            raise InputError("the request was not authenticated by IAM")
        return self.user_arn

    def json_object(self) -> dict[str, Any]:
        """Return the JSON object in the body. Raises: InputError for anything else, or no body."""
        try:
            document = json.loads(self.raw_body()) if self.body else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise InputError("the body must be a JSON object")
        return document

    def raw_body(self) -> bytes:
        """Return the bytes of the body as the client sent it; empty if there is none. Raises:
        InputError if it is too long or not readable."""
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
        """Return the fields of the form in the body by name; empty if there is no body. Raises:
        InputError if it is no form, too long, or has a field twice."""
        if not self.body:
            return {}
        if len(self.body) > _LONGEST_BODY:
            raise InputError("the form is too long")
        try:
            text = self.raw_body().decode()
        except UnicodeDecodeError as error:
            raise InputError("the form is not readable") from error
        media_type = self.headers.get("content-type", "").partition(";")[0]
        if media_type.strip().lower() != _FORM:
            raise InputError(f"the form must be {_FORM}")
        return _fields(text)


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a form or query (`a=1&b=2`) by name; empty for an empty text. Raises:
    InputError if it is not readable, has more than 60 fields, or a field stands twice."""
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
