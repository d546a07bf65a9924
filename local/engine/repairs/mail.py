"""Mail with pictures: what SES keeps of a message shows them, as a mail program does.

AWS delivers the message as it was sent. Engine: keeps its HTML alone, whose pictures (`cid:`) are
parts of their own. Here they stand in the HTML itself.
"""

from __future__ import annotations

import base64
import re
from email import message_from_bytes
from typing import Any

_PART = re.compile(r"cid:([^\"'\s>]+)")


def repair() -> None:
    """Puts it in place. Every raw message is parsed by one function of the engine."""
    from ministack.services import ses_v2

    parse = ses_v2._parse_raw_mime

    def with_pictures(raw: str) -> dict[str, Any]:
        parsed: dict[str, Any] = parse(raw)
        pictures = _pictures(raw)
        for part in parsed.get("BodyParts", []):
            if isinstance(part, dict) and "text/html" in part.get("ContentType", ""):
                part["Data"] = _PART.sub(
                    lambda found: pictures.get(found[1], found[0]), part["Data"]
                )
        return parsed

    ses_v2._parse_raw_mime = with_pictures


def _pictures(raw: str) -> dict[str, str]:
    """Each picture as an address that holds it, by its content id."""
    return {
        part["Content-ID"].strip("<>"): f"data:{part.get_content_type()};base64,"
        + base64.b64encode(part.get_payload(decode=True)).decode()
        for part in message_from_bytes(base64.b64decode(raw)).walk()
        if part.get_content_maintype() == "image" and part["Content-ID"]
    }
