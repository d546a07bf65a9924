"""Advice for people about a start that EC2 refused or took back, by EC2's code.

Nothing is decided by it: a code that is missing here is a refusal, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from governor.episode.model.start_try import ASSUME_ROLE_CALL, OWN_SHUTDOWN, START_CALL

_LATER = (
    "EC2 has no free capacity for its type in its zone: try again later, change the instance type "
    "while it is stopped, or launch another from its snapshots in another zone."
)
_SPOT_PRICE = "Raise the maximum price of its Spot request, or try again later."
_QUOTA = (
    "Ask for a higher quota in Service Quotas, or stop another instance that counts against it. "
    "Then try again."
)
_RIGHTS = (
    "An administrator must allow the role that starts instances (docs/accounts.md) to do so: its "
    "policies, an SCP, or the key policy of an encrypted volume refuses. Then try again."
)
_VOLUMES = (
    "Check its volumes: the root volume must be attached under the root device name, and the KMS "
    "key of each encrypted volume must be enabled and usable. Then try again."
)
_KEY = (
    "Enable the KMS key of its volumes, or cancel the deletion of the key, and let the role that "
    "starts instances use it (docs/accounts.md). Then try again."
)
_HOST = "Free capacity on its Dedicated Host or in its reservation, or change where it runs."
_SUBNET = "Free an address in its subnet, then try again."
_REFUSED_ACCOUNT = (
    "AWS does not say why. The account may be suspended or not active yet, or the Region may not "
    "be enabled in it. An administrator of the AWS account must look at that. Then try again."
)
_ROLE = (
    "An administrator must update stacks/member.yaml in the account of the instance, and check "
    "there the trust policy of the role whose name ends in -starter, and the SCPs "
    "(docs/accounts.md). Then try again."
)
_ACCOUNT = "An administrator of the AWS account must solve this with AWS. Then try again."
_STATE = "Check its state in the EC2 console, and try again in a few minutes."
_CHANGED = "Change the instance in the EC2 console so that EC2 can start it. Then try again."
_SHUTS_DOWN = (
    "Find out what shuts it down from inside, such as a script for idle hosts, a scheduled "
    "shutdown or a person who is logged in. Then start it again."
)
_AGAIN = "Try again in a few minutes. If it keeps failing, ask AWS Support."

_CODES_BY_ADVICE: Mapping[str, str] = {
    _LATER: """
        InsufficientInstanceCapacity InsufficientCapacity SpotInstanceShutdown
        SpotInstanceTermination
    """,
    _SPOT_PRICE: "SpotMaxPriceTooLow",
    _QUOTA: """
        VcpuLimitExceeded InstanceLimitExceeded MaxSpotInstanceCountExceeded VolumeLimitExceeded
        MaxIOPSLimitExceeded ResourceLimitExceeded AddressLimitExceeded
        NetworkInterfaceLimitExceeded
    """,
    _RIGHTS: """
        UnauthorizedOperation AccessDenied AccessDeniedException
        OperationNotPermitted KMSAccessDenied KMSAccessDeniedException
    """,
    _VOLUMES: """
        InvalidParameterValue InvalidVolume.NotFound IncorrectState EncryptedVolumesNotSupported
        AttachmentLimitExceeded InvalidSnapshot.NotFound InvalidBlockDeviceMapping
        InternalError
    """,
    _KEY: """
        InvalidKMSKey.InvalidState InvalidKMSKey.NotFound KMSKeyDisabled KMSInvalidStateException
        KMSNotFoundException KMSDisabledException
    """,
    _HOST: """
        InsufficientHostCapacity InsufficientCapacityOnHost InvalidHostID.NotFound
        InvalidHostConfiguration InvalidHostId InsufficientReservedInstanceCapacity
        ReservationCapacityExceeded InvalidCapacityReservationState
        InvalidCapacityReservationId.NotFound
    """,
    _SUBNET: """
        InsufficientFreeAddressesInSubnet InsufficientAddressCapacity
        InsufficientFreeAddresses InvalidSubnetID.NotFound
    """,
    _REFUSED_ACCOUNT: "AuthFailure OptInRequired",
    _ACCOUNT: "Blocked PendingVerification AccountDisabled",
    _STATE: "IncorrectInstanceState InvalidInstanceID.NotFound IncorrectSpotRequestState",
    _CHANGED: """
        UnsupportedOperation Unsupported UnsupportedInstanceAttribute InvalidInstanceType
        InvalidParameterCombination UnsupportedHostConfiguration UnsupportedHibernationConfiguration
        InvalidPlacementGroup.Unknown InvalidGroup.NotFound InvalidNetworkInterfaceID.NotFound
    """,
}
_OF_A_STATE: Mapping[str, str] = {
    "Server.InternalError": _AGAIN,
    "Server.ScheduledStop": _AGAIN,
    OWN_SHUTDOWN: _SHUTS_DOWN,
}
"""Codes of a `StateReason` that mean something else than the same error code."""


def _by_code() -> dict[str, str]:
    """Return the advice for each code of `_CODES_BY_ADVICE`, by the code."""
    advice_by_code: dict[str, str] = {}
    for advice, codes in _CODES_BY_ADVICE.items():
        for code in codes.split():
            advice_by_code[code] = advice
    return advice_by_code


_ADVICE = _by_code()


def advice_on(code: str, refused_call: str = START_CALL) -> str:
    """Return what to do about this code of an error or of a `StateReason`; an empty text if nothing
    is known about it. `refused_call` is the call that met the error. A prefix of the code, such as
    `Client.`, does not matter but for the codes of `_OF_A_STATE`."""
    if refused_call == ASSUME_ROLE_CALL:
        return _ROLE
    if code in _OF_A_STATE:
        return _OF_A_STATE[code]
    _, _, error_code = code.rpartition("Client.")
    _, _, error_code = error_code.rpartition("Server.")
    return _ADVICE.get(error_code, "")
