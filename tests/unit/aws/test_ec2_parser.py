"""Answers of EC2 are read as botocore reads them, only sooner."""

from __future__ import annotations

import ast
import gc
import logging
import re
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ParamValidationError
from botocore.model import Shape, ShapeResolver, StructureShape
from botocore.parsers import BaseXMLResponseParser, EC2QueryParser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from governor.aws import ec2
from governor.aws.clients import _OWN, Clients, moment
from governor.aws.ec2_parser import Ec2Parser, Ec2ParserFactory, plain_fields

PARSERS: Any = (
    Ec2ParserFactory(moment).create_parser("ec2"),
    EC2QueryParser(timestamp_parser=moment),
)
"""The product's and botocore's."""
NAMESPACES = ("", ' xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"')
TEXTS = {
    "string": st.text("aZ09 -/<&é\u2028", max_size=8),
    "boolean": st.sampled_from(["true", "false", "TRUE", ""]),
    "integer": st.integers(-3, 2**40).map(str),
    "long": st.integers(-3, 2**60).map(str),
    "double": st.floats(allow_nan=False).map(repr),
    "float": st.floats(allow_nan=False).map(repr),
    "timestamp": st.sampled_from(
        ["2026-11-20T12:00:00.000Z", "2026-11-20T12:00:00+02:00", "2026-11-20"]
    ),
}
SESSION: Any = botocore.session.get_session()
"""One for all tests: each reads EC2's model anew."""


def answer_of(operation: str) -> Any:
    """Return the shape of its answer; `None` where it answers with a request id alone."""
    return SESSION.get_service_model("ec2").operation_model(operation).output_shape


ASKED = {
    one
    for file in Path(ec2.__file__).parent.rglob("*.py")
    for one in re.findall(r'"ec2:(\w+)"', file.read_text(encoding="utf-8"))
}
OPERATIONS = sorted(filter(answer_of, ASKED))
"""Those of EC2's operations that the product asks for and that answer with more than a request
id."""


def element(draw: st.DrawFn, name: str, shape: Any) -> str:
    """Return an element as EC2 might write it: some fields, in any order, one of them perhaps
    twice."""
    if shape.type_name == "list":
        count = draw(st.integers(0, 2))
        inner = "".join(element(draw, "item", shape.member) for _ in range(count))
    elif shape.type_name == "structure":
        members = sorted(shape.members.items())
        shown = draw(st.lists(st.sampled_from(members), max_size=4)) if members else []
        parts = [element(draw, one.serialization.get("name", field), one) for field, one in shown]
        unknown = draw(
            st.sampled_from(["", "", "<newOfEc2><deep>1</deep></newOfEc2>", "<newOfEc2/>"])
        )
        inner = "".join([*parts, unknown])
    else:
        inner = escape(draw(TEXTS[shape.type_name]))
    return f"<{name}>{inner}</{name}>"


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, bytes]:
    """An operation, and the body of an answer."""
    operation = draw(st.sampled_from(OPERATIONS))
    found = element(draw, f"{operation}Response", answer_of(operation))
    inner = found.removeprefix(f"<{operation}Response>").removesuffix(f"</{operation}Response>")
    namespace = draw(st.sampled_from(NAMESPACES))
    body = (
        f"<{operation}Response{namespace}><requestId>r-1</requestId>{inner}</{operation}Response>"
    )
    return operation, body.encode()


def read(parser: Any, operation: str, body: bytes) -> Any:
    """Return what it makes of the answer, or the kind of error."""
    try:
        found = parser.parse(
            {"body": body, "headers": {}, "status_code": 200}, answer_of(operation)
        )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        return type(error)
    return plain(found)


def plain(found: Any) -> Any:
    """Return elements that the parser left as they were as their text, which can be compared."""
    if isinstance(found, dict):
        return {name: plain(one) for name, one in found.items()}
    if isinstance(found, list):
        return [*map(plain, found)]
    return ElementTree.tostring(found) if isinstance(found, ElementTree.Element) else found


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(answers())
def test_every_answer_means_what_it_means_to_botocore(answer: tuple[str, bytes]) -> None:
    """Fields that are unknown, empty or came twice, too."""
    ours, theirs = (read(parser, *answer) for parser in PARSERS)
    assert theirs == ours


TWICE = "<instanceId>i-1</instanceId><instanceId>i-2</instanceId>"
STATE = "<instanceState><code>16</code><name>running</name></instanceState>"


@pytest.mark.parametrize(
    "inner",
    [
        TWICE,
        STATE + STATE,
        "<instanceState/>",
        "<launchTime>soon</launchTime>",
        f"{STATE}<newOfEc2/><newOfEc2/>",
        "<blockDeviceMapping><item><deviceName>a</deviceName></item></blockDeviceMapping>" * 2,
        f"<tagSet><item>{'<key>Purpose</key><value></value>' * 2}</item><item/></tagSet>",
        "<!-- a comment --><ebsOptimized>yes</ebsOptimized>",
    ],
)
def test_an_odd_record_means_what_it_means_to_botocore(inner: str) -> None:
    """A field that came twice is a list to botocore, and a text that is no time is an error."""
    items = f"<instancesSet><item>{inner}</item></instancesSet>"
    body = f"<r><reservationSet><item>{items}</item></reservationSet></r>".encode()
    ours, theirs = (read(parser, "DescribeInstances", body) for parser in PARSERS)
    assert theirs == ours


BY_BOTOCORE = ("InstanceNetworkInterfaceSpecification",)
"""The interfaces of a Spot request: their model says, too, how they are asked for."""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_nothing_of_the_answers_is_left_to_botocore(operation: str) -> None:
    """A field of which the model says more than a name would make every answer slow again."""
    waiting, seen = [answer_of(operation)], set()
    while waiting:
        shape = waiting.pop()
        if shape.type_name == "list":
            waiting.append(shape.member)
        elif shape.type_name == "structure" and shape.name not in seen:
            seen.add(shape.name)
            assert shape.name in BY_BOTOCORE or len(shape.members) == len(plain_fields(shape)), (
                shape.name
            )
            waiting += shape.members.values()
    assert seen


def test_a_field_of_which_the_model_says_more_is_left_to_botocore() -> None:
    """Flattened lists, headers and attributes are read by other rules than a name."""
    model = SESSION.get_service_model("s3").operation_model("ListObjectsV2").output_shape
    assert {} == plain_fields(model)


def test_a_type_that_the_parser_does_not_know_is_left_to_botocore() -> None:
    """A later botocore may have more of them."""
    shapes: Any = {
        "S": {"type": "structure", "members": {"A": {"shape": "New"}}},
        "New": {"type": "new"},
    }
    shape = ShapeResolver(shapes).get_shape_by_name("S")
    node = ElementTree.fromstring("<S><A>1</A></S>")
    ours, theirs = (plain(parser._parse_shape(shape, node)) for parser in PARSERS)
    assert theirs == ours


def test_nothing_is_kept_of_a_client_that_is_gone() -> None:
    """EC2's model takes megabytes, and a warm function sees the clients of hundreds of episodes."""
    factory = Ec2ParserFactory(moment)
    gone: Any = botocore.session.get_session()
    shape = gone.get_service_model("ec2").operation_model("DescribeInstances").output_shape
    body = (
        b"<r><reservationSet><item><instancesSet><item/></instancesSet></item></reservationSet></r>"
    )
    answer = {"body": body, "headers": {}, "status_code": 200}
    factory.create_parser("ec2").parse(answer, shape)
    assert factory.fields_by_shape
    kept = weakref.ref(shape)
    del gone, shape
    gc.collect()
    assert kept() is None
    assert not factory.fields_by_shape


INSTANCE = f"<instanceId>i-1</instanceId><launchTime>2026-11-20T12:00:00Z</launchTime>{STATE}"
INSTANCES = (
    f"<r><reservationSet><item><instancesSet><item>{INSTANCE}</item></instancesSet></item>"
    "</reservationSet></r>"
).encode()


def shapes_below(shape: Any) -> Iterator[Any]:
    """Yield a shape and those that a parser has reached from it."""
    yield shape
    if shape.type_name == "list":
        yield from shapes_below(shape.member)
    elif "members" in vars(shape):
        for member in shape.members.values():
            yield from shapes_below(member)


def test_nothing_is_written_onto_botocore_s_shapes() -> None:
    """They have the attributes that botocore gives them, and no others."""
    model = botocore.session.get_session().get_service_model("ec2")
    shape = model.operation_model("DescribeInstances").output_shape
    shapes: Any = {"S": {"type": "string"}}
    untouched: Any = ShapeResolver(shapes).get_shape_by_name("S")
    answer = {"body": INSTANCES, "headers": {}, "status_code": 200}
    parsed = Ec2ParserFactory(moment).create_parser("ec2").parse(answer, shape)

    assert "i-1" == parsed["Reservations"][0]["Instances"][0]["InstanceId"]
    reached = list(shapes_below(shape))
    assert len(reached) > 50
    for one in reached:
        of_botocore = vars(untouched).keys() | set(dir(type(one)))
        assert set() == vars(one).keys() - of_botocore, one.name


@pytest.mark.parametrize(
    ("botocore_class", "name"),
    [
        (BaseXMLResponseParser, "_handle_long"),
        (Shape, "serialization"),
        (StructureShape, "members"),
    ],
)
def test_without_what_it_relies_on_botocore_reads_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    botocore_class: type,
    name: str,
) -> None:
    """A botocore that renames a method of its own must not break the reading of instances."""
    with monkeypatch.context() as other_botocore, caplog.at_level(logging.WARNING):
        other_botocore.delattr(botocore_class, name)
        factory = Ec2ParserFactory(moment)
        parser = factory.create_parser("ec2")

    assert EC2QueryParser is type(parser)
    (record,) = caplog.records
    assert re.search(rf"this botocore lacks \w+\.{name}; EC2's answers", record.getMessage())
    ours = read(PARSERS[0], "DescribeInstances", INSTANCES)
    assert ours == read(parser, "DescribeInstances", INSTANCES)


def test_this_botocore_lacks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The pinned version is read by our parser, without a warning."""
    with caplog.at_level(logging.WARNING):
        assert isinstance(Ec2ParserFactory(moment).create_parser("ec2"), Ec2Parser)
    assert [] == caplog.records


def attributes_set_on_others(source: str) -> list[str]:
    """Return the assignments of a module to attributes of anything but `self`."""
    written = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            if ast.unparse(node.value) != "self":
                written.append(ast.unparse(node))
        elif isinstance(node, ast.Name) and node.id in ("setattr", "delattr"):
            written.append(node.id)
    return written


def test_nothing_that_imports_botocore_sets_attributes_of_others() -> None:
    """Public or private: botocore's sessions, clients and shapes keep what botocore gave them."""
    sources = {
        path.name: path.read_text(encoding="utf-8")
        for path in Path(ec2.__file__).parent.rglob("*.py")
    }
    using_botocore = {
        name: source
        for name, source in sources.items()
        if re.search("(from|import) botocore", source)
    }
    assert {"clients.py", "ec2_parser.py"} <= using_botocore.keys()
    written = {name: attributes_set_on_others(source) for name, source in using_botocore.items()}
    assert {} == {name: names for name, names in written.items() if names}
    assert ["session._credentials"] == attributes_set_on_others("session._credentials = 1")


def test_the_clients_read_by_it() -> None:
    """EC2 alone: others keep botocore's parsers, with our reading of times."""
    factory: Any = Clients("us-east-1")._session(_OWN).get_component("response_parser_factory")
    assert isinstance(factory.create_parser("ec2"), Ec2Parser)
    assert not isinstance(factory.create_parser("query"), Ec2Parser)
    assert moment is factory.create_parser("query")._timestamp_parser


def test_only_cloudwatch_checks_what_cloudwatch_is_asked() -> None:
    """To check 500 queries takes botocore longer than to write them."""
    clients, sent = Clients("us-east-1"), []

    def answer(params: Any, **_: Any) -> tuple[Any, dict[str, Any]]:
        sent.append(params["body"])
        return AWSResponse("", 200, HTTPHeaders(), None), {}

    cloudwatch = clients.client("cloudwatch")
    cloudwatch.meta.events.register("before-call", answer)
    cloudwatch.describe_alarms(MaxRecords="many")
    assert 1 == len(sent)
    with pytest.raises(ParamValidationError):
        clients.client("ec2").describe_instances(MaxResults="many")
