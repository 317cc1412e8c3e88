"""What goes over HTTP: made by tools/generate_models.py from the OpenAPI document, not by hand."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, RootModel
from enum import StrEnum
from typing import Annotated


class AccountName(BaseModel):
    """How an account is called."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    account: str
    """IBAN or other alias, number, or role such as `own:EUR`."""
    institution: str
    """BIC of the institution that holds it."""


class AccountStatus(StrEnum):
    """
    Whether an account takes part in payments.
    """

    OPEN = "open"
    FROZEN = "frozen"
    CLOSED = "closed"


class AssetKind(StrEnum):
    """
    What an asset is.
    """

    CURRENCY = "currency"
    SECURITY = "security"


class AssetView(BaseModel):
    """What accounts hold."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    asset: Annotated[int, Field(ge=0)]
    """Its number in legs and proofs."""
    code: str
    """ISO 4217 code or ISIN."""
    exponent: Annotated[int, Field(ge=0)]
    """Decimals of the minor unit."""
    kind: AssetKind
    """What it is."""
    largest_payment: str
    """The largest payment, as a decimal."""
    settled_at: str
    """BIC of the institution where the others hold settlement accounts in it."""


class AssetsBody(BaseModel):
    """Answer of `GET /v1/assets`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    assets: list[AssetView]
    """By asset id."""


class BooksView(BaseModel):
    """Answer of `GET /v1/accounts/{bic}`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    institution: str
    """BIC."""
    next_account: Annotated[int, Field(ge=0)]
    """The number of the account that is opened next."""


class EntryView(BaseModel):
    """One entry of a statement."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    amount: str
    """What the account got, negative for a debit; a decimal."""
    balance: str
    """What it held then; a decimal."""
    sequence: Annotated[int, Field(ge=0)]
    """Its place in the global order."""
    time: str
    """When, as an ISO 8601 time."""
    uetr: str
    """The transaction's reference."""


class EventKind(StrEnum):
    OUTCOME = "outcome"


class EventView(BaseModel):
    """A server-sent event, by its fields (WHATWG HTML, section 9.2.6)."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    data: Annotated[str, Field(json_schema_extra={"contentMediaType": "application/json"})]
    """An `OutcomeView` as JSON."""
    event: EventKind
    id: Annotated[str, Field(pattern="^[0-9]+$")]
    """The outcome's sequence number."""


class GivenSignature(BaseModel):
    """A signature over a transaction's id."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    key: str
    """Whose: an Ed25519 public key in hexadecimal."""
    signature: str
    """Over the 32 bytes of the id: Ed25519 (RFC 8032), in hexadecimal."""


class HeadCosignature(BaseModel):
    """An institution's signature, as a witness, on the tree head beside which it stands (C2SP tlog-cosignature)."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    participant: Annotated[int, Field(ge=0)]
    """Participant id of the witness, which is not the operator."""
    signature: str
    """
    Ed25519, in hexadecimal, over the lines `cosignature/v1`, `time` and that time, the log's name
    (`tallystick.settlement/v2/` and the network's id), size, and root in base64, each with a newline.
    """
    time_s: Annotated[int, Field(ge=0)]
    """When it signed, by its own clock, in seconds since the Unix epoch; below 2^63."""


class HealthView(BaseModel):
    """Answer of `GET /health`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    healthy: bool
    """Whether payments are taken."""
    text: str
    """One sentence."""


class LegView(BaseModel):
    """A leg, for people."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    account: str
    """The account's alias, number, or role."""
    amount: str
    """The amount as a decimal, negative for a debit."""
    asset: str
    """Code of the asset."""
    institution: str
    """BIC."""


class SettlementFloorItem(RootModel[int]):
    model_config = ConfigDict(
        frozen=True,
    )
    root: Annotated[int, Field(ge=0)]


class SettlementFloor(RootModel[tuple[SettlementFloorItem, int]]):
    model_config = ConfigDict(
        frozen=True,
    )
    root: Annotated[tuple[SettlementFloorItem, int], Field(max_length=2, min_length=2)]


class Participant(BaseModel):
    """A regulated institution."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    bic: str
    """ISO 9362."""
    key: str
    """Ed25519 public key, in hexadecimal."""
    name: str
    """X.500."""
    settlement_floors: list[SettlementFloor]
    """Asset id and minor units: how far below zero its settlement account may go."""


class ParticipantKind(StrEnum):
    """
    What a participant is.
    """

    CENTRAL_BANK = "central-bank"
    BANK = "bank"
    E_MONEY_ISSUER = "e-money-issuer"
    DEPOSITORY = "depository"


class Problem(BaseModel):
    """Why something was refused: an ISO 20022 code and one sentence."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    code: str
    """The code, such as `AM04`."""
    text: str
    """What was wrong."""


class ProblemDetails(BaseModel):
    """The body of every answer that is an error: problem details (RFC 9457), as `application/problem+json`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    code: str
    """A code of ISO 20022 where there is one, such as `AC01`, else a word such as `not-found`."""
    detail: str
    """What was wrong with this request."""
    status: Annotated[int, Field(ge=0)]
    """HTTP status."""
    title: str
    """The kind of problem in words that do not depend on the request."""
    type: str
    """What kind of problem it is: `urn:tallystick:problem:` and the code."""


class ProvenLeg1(BaseModel):
    """One leg: shown with the salt that shows that it belongs to the id, or its hash alone."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    hidden: str


class Shown(BaseModel):
    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    account: Annotated[int, Field(ge=0)]
    amount: int
    """Minor units; negative for a debit."""
    asset: Annotated[int, Field(ge=0)]
    participant: Annotated[int, Field(ge=0)]
    salt: str


class ProvenLeg2(BaseModel):
    """One leg: shown with the salt that shows that it belongs to the id, or its hash alone."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    shown: Shown


class Sibling1(BaseModel):
    """A hash beside the path from an answer to the root, BLAKE3 in hexadecimal."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    left: str


class Sibling2(BaseModel):
    """A hash beside the path from an answer to the root, BLAKE3 in hexadecimal."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    right: str


class SignaturePolicy(StrEnum):
    """
    Which transactions need their payers' signatures.
    """

    REQUIRED = "required"
    INSTITUTIONS_ONLY = "institutions-only"


class SignedDraft(BaseModel):
    """A signed draft."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    position: Annotated[int, Field(ge=0)]
    """Position of the payment in the message, from 0."""
    transaction: str
    """The batch of one, encoded and in hexadecimal."""


class SignedPayment(BaseModel):
    """A draft and who signed it."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    signatures: Annotated[list[GivenSignature], Field(max_length=255)]
    """One signature of each of the draft's signers."""
    transaction: str
    """The draft's transaction, as it was prepared."""


class SignedPaymentsBody(BaseModel):
    """Body of `POST /v1/payments`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    payments: Annotated[list[SignedPayment], Field(max_length=1000, min_length=1)]
    """1 to 1000 payments."""


class Status(StrEnum):
    """
    How far a transaction came.
    """

    ACSC = "ACSC"
    RJCT = "RJCT"
    PDNG = "PDNG"


class SubmitBody(BaseModel):
    """Body of `POST /v1/iso20022/submit`. The answer is a pain.002 to a pain.001, else a pacs.002."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    message: str
    """The message as it was prepared, in base64."""
    signed: list[SignedDraft]
    """The signed drafts: the payment's position in the message, and the batch of one in hexadecimal."""


class TotalView(BaseModel):
    """What an institution holds and owes in one asset, in minor units."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    accounts: Annotated[int, Field(ge=0)]
    """How many customers' accounts it has in it."""
    asset: str
    """Code of the asset."""
    customers: int
    """What its customers have."""
    institution: str
    """BIC."""
    issued: int
    """What it issued."""
    own: int
    """What it has itself."""
    settlement: int
    """What others have on settlement accounts with it."""


class TreeHead(BaseModel):
    """The state of the Merkle log at one moment (RFC 9162, section 4.10)."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    root: str
    """SHA-256, in hexadecimal."""
    size: Annotated[int, Field(ge=0)]
    """Number of leaves."""
    timestamp_ms: Annotated[int, Field(ge=0)]
    """Milliseconds since the Unix epoch."""


class WantedPayment(BaseModel):
    """A payment to make."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    amount: str
    """How much: a decimal above zero, such as `10.50`."""
    asset: str
    """Currency code or ISIN."""
    details: str | None = None
    """Hash of what the payment is for, kept elsewhere: 32 bytes in hexadecimal, which the payer signs too."""
    from_: Annotated[AccountName, Field(alias="from")]
    """The account that pays."""
    to: AccountName
    """The account that is paid."""
    uetr: Annotated[
        str | None, Field(pattern="^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$")
    ] = None
    """Its end-to-end reference, a UUID; without one it gets one."""


class AccountBody(BaseModel):
    """Answer of `GET /v1/accounts/{bic}/{account}`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    alias: str | None = None
    """Its IBAN or other alias."""
    asset: str
    """Code of the asset that it holds."""
    balance: str
    """The balance as a decimal."""
    floor: str
    """How far below zero it may go, as a decimal: zero or negative."""
    institution: str
    """BIC."""
    minor_units: int
    """The balance in minor units."""
    number: Annotated[int, Field(ge=0)]
    """Its number in the institution's books."""
    owner: str
    """Whose signature debits it: the customer's or, for an institution's own account, the institution's."""
    status: AccountStatus
    """Whether it takes part in payments."""


class Approval(BaseModel):
    """One institution's answer under its signature."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    batch_len: Annotated[int, Field(ge=0)]
    index: Annotated[int, Field(ge=0)]
    participant: Annotated[int, Field(ge=0)]
    path: list[Sibling1 | Sibling2]
    """From the answer to the root of the institution's batch of answers, from below."""
    signature: str
    verdict: Annotated[int, Field(ge=0)]
    """0 for yes, else the refusal's number."""


class Asset(BaseModel):
    """What accounts hold."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    code: str
    """ISO 4217 code or ISIN."""
    exponent: Annotated[int, Field(ge=0)]
    """Decimals of the minor unit."""
    kind: AssetKind
    largest_payment: int
    """Minor units."""
    settled_at: Annotated[int, Field(ge=0)]
    """Participant id of where the others hold settlement accounts in it."""


class Contents(BaseModel):
    """What a transaction's id commits to."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    details: str
    """Hash of the payment message or account order, in hexadecimal."""
    expiry: Annotated[int, Field(ge=0)]
    """Milliseconds since the Unix epoch."""
    kind: Annotated[int, Field(ge=0)]
    """1 transfer, 2 issue, 3 redeem, 4 account order."""
    legs: list[ProvenLeg1 | ProvenLeg2]
    network: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """The network's id: 64 lower-case hexadecimal digits."""
    participants: list[int]
    """Participant ids of all whom it concerns, ascending."""
    uetr: str


class Draft(BaseModel):
    """A transaction that wants signatures."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    id: str
    """Its id, which is what is signed; in hexadecimal."""
    legs: list[LegView]
    """Its legs, for people."""
    signers: list[str]
    """Who must sign."""
    transaction: str
    """A batch of one, encoded and in hexadecimal."""


class InstitutionView(BaseModel):
    """A regulated institution."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    bic: str
    """ISO 9362."""
    key: str
    """Its Ed25519 public key, in hexadecimal."""
    kind: ParticipantKind
    """What it is."""
    name: str
    """X.500."""
    participant: Annotated[int, Field(ge=0)]
    """Its number in legs, keys and proofs."""


class InstitutionsBody(BaseModel):
    """Answer of `GET /v1/institutions`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    institutions: list[InstitutionView]
    """By participant id."""


class Network(BaseModel):
    """The configuration on which all stages agree."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    assets: list[Asset]
    """By asset id."""
    id: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """
    The network's id, to which every signature commits: BLAKE3 of its genesis file, 64
    lower-case hexadecimal digits.
    """
    longest_validity_ms: Annotated[int, Field(ge=0)]
    """How far ahead an expiry may lie, in milliseconds; so long is every reference remembered."""
    participants: list[Participant]
    """By participant id."""
    signatures: SignaturePolicy


class OutcomeView(BaseModel):
    """What became of one transaction."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    first: OutcomeView | None = None
    id: str
    """The transaction's id, in hexadecimal."""
    reason: Problem | None = None
    sequence: Annotated[int | None, Field(ge=0)] = None
    """Its place in the global order, if it has one."""
    status: Status
    """How far it came."""
    time: str | None = None
    """When it was decided, as an ISO 8601 time."""
    uetr: str
    """Its reference."""


class OutcomesBody(BaseModel):
    """Answer of `POST /v1/transactions`, `POST /v1/payments` and `POST /v1/accounts`: one for each transaction, in order."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    outcomes: list[OutcomeView]
    """The outcomes."""


class PaymentsBody(BaseModel):
    """Body of `POST /v1/payments/prepare`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    payments: Annotated[list[WantedPayment], Field(max_length=1000, min_length=1)]
    """1 to 1000 payments."""


class PreparedPayment(BaseModel):
    """A payment of a message: refused already, or ready to be signed."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    draft: Draft | None = None
    refused: Problem | None = None
    uetr: str
    """Its reference."""


class SignedTreeHead(BaseModel):
    """A head of the Merkle log and its operator's signature."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    head: TreeHead
    signature: str
    """Ed25519, in hexadecimal."""


class StatementBody(BaseModel):
    """Answer of `GET /v1/accounts/{bic}/{account}/statement`, the newest entry first."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    account: AccountBody
    """The account now."""
    entries: list[EntryView]
    """The entries."""
    next: Annotated[int | None, Field(ge=0)] = None
    """What to give as `before` for the entries that follow; none when there are no more."""


class Consistency(BaseModel):
    """Two heads and the proof that the later log extends the earlier one (RFC 9162, section 2.1.4)."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    first: SignedTreeHead
    first_cosignatures: list[HeadCosignature] | None = None
    """Of witnesses on the first head; left out where there are none."""
    path: list[str]
    second: SignedTreeHead
    second_cosignatures: list[HeadCosignature] | None = None
    """Of witnesses on the second head; left out where there are none."""


class NetworkView(BaseModel):
    """Answer of `GET /v1/network`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    health: HealthView
    """How the network is."""
    kinds: list[ParticipantKind]
    """What each participant is, by participant id."""
    network: Network
    """The configuration on which all stages agree."""
    sequence: Annotated[int, Field(ge=0)]
    """How many transactions have been decided."""
    totals: list[TotalView]
    """By participant and asset, where there is anything."""
    tree_head: SignedTreeHead | None = None


class PreparedBody(BaseModel):
    """Answer of `POST /v1/iso20022/prepare` and `POST /v1/payments/prepare`."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    payments: list[PreparedPayment]
    """One for each payment, in order."""
    refused: Problem | None = None


class Receipt(BaseModel):
    """Proof that a transaction has its place and its verdict in the one global order."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    batch: Annotated[int, Field(ge=0)]
    cosignatures: list[HeadCosignature] | None = None
    """Of witnesses on that head; left out where there are none, as in a network that runs in one process."""
    count: Annotated[int, Field(ge=0)]
    """How many decisions its batch has."""
    decision_path: list[str]
    """From the decision to the root of its batch, from below; BLAKE3, in hexadecimal."""
    first: Annotated[int, Field(ge=0)]
    """Sequence number of the first decision of its batch."""
    head: SignedTreeHead
    id: str
    """The transaction's id, in hexadecimal."""
    leaf: Annotated[int, Field(ge=0)]
    """Which leaf of the Merkle log its batch is."""
    root: str
    """The root of its batch."""
    scheduler: Annotated[int, Field(ge=0)]
    sequence: Annotated[int, Field(ge=0)]
    """Its place."""
    timestamp: Annotated[int, Field(ge=0)]
    """When its batch was sequenced, in milliseconds since the Unix epoch."""
    tree_path: list[str]
    """From the batch to the root of the Merkle log, from below; SHA-256, in hexadecimal."""
    verdict: Annotated[int, Field(ge=0)]
    """0 for made, else the refusal's number."""


class Proof(BaseModel):
    """Proof that a transaction has its outcome, for whoever holds the network's public keys."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
    approvals: list[Approval]
    """The institutions' answers."""
    missing: list[int]
    """Participant ids whose answers could not be shown."""
    receipt: Receipt
    transaction: Contents
    version: Annotated[int, Field(ge=0)]
    """2."""


OutcomeView.model_rebuild()
