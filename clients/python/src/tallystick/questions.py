"""What can be asked: accounts, statements, outcomes, proofs, and the network itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal
from uuid import UUID

from . import models
from .connection import Connection, segment
from .errors import ProofError, ProofFault, ProtocolError
from .events import Events
from .log import Consistency, SignedTreeHead
from .network import Account
from .proof import Proof
from .receipt import Receipt
from .trust import Keys

Freshness = Literal["latest", "local"]
"""`latest`: not older than the question; `local`: what the gateway knows at once."""


class Questions(Connection):
    """Asks and changes nothing; every question is asked again when it fails on the way."""

    def network(self) -> models.NetworkView:
        """Who takes part, and the sums of the books that the user may see."""
        return self._transport.get("/v1/network", models.NetworkView)

    def books(self, institution: str, *, consistency: Freshness = "latest") -> models.BooksView:
        """An institution's books."""
        query = {"consistency": consistency}
        return self._transport.get(f"/v1/accounts/{segment(institution)}", models.BooksView, query)

    def account(self, account: Account | str, *, consistency: Freshness = "latest") -> models.AccountBody:
        """An account and its balance; by `Account(BIC, NAME)` or `"BIC/NAME"`.

        Raises:
            NotFoundError: there is no such account.
            ForbiddenError: it is another institution's.
        """
        return self._transport.get(_path(account), models.AccountBody, {"consistency": consistency})

    def statement(
        self, account: Account | str, *, page: int = 200, consistency: Freshness = "latest"
    ) -> Iterator[models.EntryView]:
        """An account's entries, the newest first; so many are asked for at once as are in a `page`, 1 to 1000."""
        before: int | None = None
        while True:
            answer = self.statement_page(account, limit=page, before=before, consistency=consistency)
            yield from answer.entries
            if answer.next is None:
                return
            before = answer.next

    def statement_page(
        self, account: Account | str, *, limit: int = 50, before: int | None = None, consistency: Freshness = "latest"
    ) -> models.StatementBody:
        """Up to `limit` entries with sequence numbers below `before`, the newest first."""
        query: dict[str, str | int] = {"limit": limit, "consistency": consistency}
        if before is not None:
            query["before"] = before
        return self._transport.get(f"{_path(account)}/statement", models.StatementBody, query)

    def status(self, transaction: UUID | str) -> models.OutcomeView:
        """What became of a transaction by the gateway's word, by its UETR or its id; `proof` is the evidence of it.

        Raises:
            NotFoundError: there is no such transaction.
            ProtocolError: the gateway answers for another one.
        """
        outcome = self._transport.get(f"/v1/transactions/{segment(str(transaction))}", models.OutcomeView)
        if str(transaction).lower() not in (outcome.uetr, outcome.id):
            text = f"the gateway answers for another transaction, {outcome.id} ({outcome.uetr}), than {transaction}"
            raise ProtocolError(text)
        return outcome

    def events(self, after: int | None = None, *, until: int | None = None) -> Events:
        """What became of each transaction with an account at an institution that the user acts for, as it becomes
        final: those after that sequence number, or, without one, those from now on. There is an end only where `until`
        is given: before that sequence number, once the network has reached it.

            with tally.events() as events:
                for event in events:
                    print(event.sequence, event.outcome.uetr, event.outcome.status)
        """
        if after is None:
            # Where the stream begins is settled now, and not when, and as often as, it is opened.
            decided = self.network().sequence
            after = decided - 1 if decided else None
        return Events(self._transport, after, until)

    def receipt(self, uetr: UUID | str, identity: str | None = None) -> Receipt:
        """Proof of what became of a transaction, not verified yet: from its id to a head that the operator signed.

        A receipt has no reference. Give the id of what was signed as `identity`, in hexadecimal, so
        that the receipt is of that; without it, it is of whatever transaction the gateway chose, and
        its `id` has to be compared.

        Raises:
            ProofError: it is of another id.
        """
        receipt = Receipt.from_json(self._transport.send("GET", f"/v1/transactions/{segment(str(uetr))}/receipt"))
        if identity is not None and receipt.id.hex() != identity.lower():
            text = f"the gateway shows a receipt of {receipt.id.hex()}, not of {identity}"
            raise ProofError(ProofFault.ID, text)
        return receipt

    def proof(self, transaction: UUID | str, *, legs: Iterable[str] = ()) -> Proof:
        """Proof for others of what became of a transaction, not verified yet; it shows the legs of the institutions
        whose BICs are in `legs`.

        Ask by the id of what was signed: somebody else may have used the same UETR for another transaction before.

        Raises:
            ProofError: it is of another transaction.
        """
        bics = ",".join(legs)
        path = f"/v1/transactions/{segment(str(transaction))}/proof"
        proof = Proof.from_json(self._transport.send("GET", path, query={"legs": bics} if bics else None))
        if str(transaction).lower() not in (str(proof.transaction.uetr), proof.receipt.id.hex()):
            raise ProofError(ProofFault.ID, f"the gateway shows a proof of {proof.transaction.uetr}, not {transaction}")
        return proof

    def tree_head(self) -> SignedTreeHead:
        """The signed head of the log of decisions, verified by the operator's key: the one in the
        `network` that was given to the client, else the one that the gateway said.

        Raises:
            ProofError: the operator did not sign it.
        """
        head = SignedTreeHead.from_json(self._transport.send("GET", "/v1/tree-head"))
        head.verify(Keys.of(self.trusted_network))
        return head

    def consistency(self, first: int, second: int, *, keys: Keys | None = None) -> Consistency:
        """Proof that the log was only ever appended to between the heads of two sizes, verified as by `tree_head`.

        Args:
            first: size of the earlier head.
            second: size of the later head.
            keys: to verify by, such as those of `tally network keys`, which say how many witnesses have to have
                cosigned both heads; else those of the network, which ask for none.

        Raises:
            TooFewWitnessesError: fewer institutions than `keys` ask for cosigned a head.
            ProofError: it is not shown.
        """
        query = {"first": first, "second": second}
        shown = Consistency.from_json(self._transport.send("GET", "/v1/tree-head/consistency", query=query))
        shown.verify(Keys.of(self.trusted_network) if keys is None else keys)
        if (shown.first.head.size, shown.second.head.size) != (first, second):
            raise ProofError(
                ProofFault.CONSISTENCY, f"the gateway shows other heads than those of {first} and {second}"
            )
        return shown

    def health(self) -> models.HealthView:
        """Whether the gateway lives; one that has stopped is an answer too, not an error."""
        return self._transport.get("/health", models.HealthView, also=503)

    def ready(self) -> models.HealthView:
        """Whether payments are taken now; that they are not is an answer too, not an error."""
        return self._transport.get("/ready", models.HealthView, also=503)

    def metrics(self) -> str:
        """The gateway's metrics in the text form of OpenMetrics."""
        return self._transport.send("GET", "/metrics").decode("utf-8", "replace")


def _path(account: Account | str) -> str:
    institution, name = Account.of(account)
    return f"/v1/accounts/{segment(institution)}/{segment(name)}"
