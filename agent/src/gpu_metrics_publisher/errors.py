"""All errors of the publisher, as one tree.

PublisherError
|-- DriverUnavailableError    NVML cannot be used at all: no driver, not loaded, or replaced
|-- MetadataError        the instance's own identity cannot be learned
`-- DeliveryError        CloudWatch did not take a call
    |-- UndeliveredError      it may take the same call later: network, throttling, credentials
    |   `-- UnforeseenError   the answer is unknown: the call is wrong, or none is taken now
    `-- RefusedError     it will never take this call
"""

from __future__ import annotations


class PublisherError(Exception):
    """The root; its text says what to do."""


class DriverUnavailableError(PublisherError):
    """NVML cannot be used at all."""


class MetadataError(PublisherError):
    """The instance metadata service gave no usable answer."""


class DeliveryError(PublisherError):
    """CloudWatch did not take a call."""


class UndeliveredError(DeliveryError):
    """The call may succeed later; keep it."""


class UnforeseenError(UndeliveredError):
    """CloudWatch gave an unknown answer. Whether only this call is wrong shows by other calls."""


class RefusedError(DeliveryError):
    """The call will never succeed; keeping it would only block others."""
