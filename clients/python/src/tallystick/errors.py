"""What can go wrong, one class for each thing that a program may want to do something about."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from .models import OutcomeView


class TallystickError(Exception):
    """Any error of this package."""


class DecodeError(TallystickError):
    """Bytes or a text do not have the form that they should have: `what` was read and `problem` is at `where`."""

    def __init__(self, what: str, problem: str, where: str) -> None:
        super().__init__(f"{what}: {problem} at {where}")
        self.what = what
        self.problem = problem
        self.where = where


class AmountError(TallystickError, ValueError):
    """A text is no amount of the asset."""


class KeyFileError(TallystickError):
    """A key file cannot be used."""


class UnknownNameError(TallystickError, LookupError):
    """The network has no such participant, asset or account by the configuration that the client trusts."""


class TransportError(TallystickError):
    """The gateway was not reached or did not answer; nothing is known of what it did."""


class UnreachedError(TransportError):
    """The gateway was not reached; nothing was sent."""


class UntrustedGatewayError(UnreachedError):
    """The gateway's certificate is not of an authority that is trusted, or not for its name; nothing was sent."""


class ProtocolError(TallystickError):
    """The gateway's answer is not what the interface promises, or contradicts what was sent."""


class UntrustedNetworkError(ProtocolError):
    """The gateway serves another network than the one that the client was told to trust."""


class ProblemError(TallystickError):
    """The gateway's problem details (RFC 9457): the request was not done."""

    def __init__(self, status: int, code: str, title: str, detail: str, retry_after: float | None) -> None:
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        """The HTTP status."""
        self.code = code
        """A code of ISO 20022 where there is one, such as `AC01`, else a word such as `not-found`."""
        self.title = title
        """The kind of problem in words that do not depend on the request."""
        self.detail = detail
        """What was wrong with this request."""
        self.retry_after = retry_after
        """Seconds after which it may be sent again, where the gateway says so."""


class BadRequestError(ProblemError):
    """400, 405, 408, 413, 415, 422: the request's form is wrong, or does not fit what was sent before."""


class UnauthorizedError(ProblemError):
    """401: the token or certificate is nobody's, or has ended."""


class ForbiddenError(ProblemError):
    """403: the user may not do this."""


class NotFoundError(ProblemError):
    """404: there is no such thing."""


class QuotaError(ProblemError):
    """429: more was sent than agreed."""


class UnavailableError(ProblemError):
    """502, 503, 504: the network cannot answer now."""


class ServerError(ProblemError):
    """Any other status: the gateway failed."""


class RefusedError(TallystickError):
    """The network refused a payment or an order for good: a code of ISO 20022 and a sentence."""

    def __init__(self, code: str, text: str, uetr: UUID | None, outcome: OutcomeView | None = None) -> None:
        super().__init__(f"{code}: {text}" + (f" (reference {uetr})" if uetr else ""))
        self.code = code
        self.text = text
        self.uetr = uetr
        self.outcome = outcome
        """What the ledger says, unless it was refused before it was handed in."""


class OutcomeUnknownError(TransportError):
    """A signed transaction was sent and no answer came: ask for the status of each of `uetrs` before anything else."""

    def __init__(self, uetrs: tuple[UUID, ...], cause: str) -> None:
        references = ", ".join(map(str, uetrs))
        super().__init__(f"{cause}; ask for the status of {references} to learn what became of it")
        self.uetrs = uetrs


class DraftError(TallystickError):
    """What the gateway prepared is not the payment that was asked for; nothing was signed. `payment` counts from 0."""

    def __init__(self, problem: str, payment: int = 0) -> None:
        super().__init__(f"payment {payment + 1}: what the gateway prepared is not signed: {problem}")
        self.problem = problem
        self.payment = payment


class MessageError(TallystickError):
    """A payment message cannot be read far enough to check what the gateway prepares of it."""


class ProofFault(StrEnum):
    """What is wrong with a proof."""

    VERSION = "version"
    FORM = "form"
    NETWORK = "network"
    ID = "id"
    RECEIPT = "receipt"
    HEAD = "head"
    COSIGNATURE = "cosignature"
    TOO_FEW_WITNESSES = "too-few-witnesses"
    TIME = "time"
    CONSISTENCY = "consistency"
    UNKNOWN_INSTITUTION = "unknown-institution"
    APPROVAL = "approval"
    TWICE = "twice"
    REFUSED = "refused"
    NOT_CONCERNED = "not-concerned"
    NOT_SHOWN = "not-shown"


class ProofError(TallystickError):
    """A proof proves nothing, or less than was asked for; `fault` says which part."""

    def __init__(self, fault: ProofFault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


class TooFewWitnessesError(ProofError):
    """Fewer institutions cosigned a head of the operator's log than the keys or the caller ask for."""

    def __init__(self, size: int, wanted: int, got: int) -> None:
        text = (
            f"{got} of the {wanted} institutions that are asked for cosigned the tree head of {size} records: "
            "ask for a newer proof, or compare the head with what other institutions have seen"
        )
        super().__init__(ProofFault.TOO_FEW_WITNESSES, text)
        self.size = size
        """How many records the head is of."""
        self.wanted = wanted
        """How many institutions are asked for."""
        self.got = got
        """How many there are, the operator not counted."""
