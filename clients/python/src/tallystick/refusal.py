"""Refusals: why a transaction was not made, by the numbers that the ledger and its proofs hold."""

from __future__ import annotations

from enum import Enum


class Refusal(Enum):
    """Why a transaction was refused: its number, the ISO 20022 status reason code, and one sentence for the payer."""

    MALFORMED = (1, "FF01", "The transaction's form is not valid.")
    TOO_FEW_LEGS = (2, "FF01", "A transaction needs at least two legs.")
    TOO_MANY_LEGS = (3, "FF01", "The transaction has more legs than the limit.")
    WRONG_NETWORK = (4, "FF01", "The transaction is for another network.")
    UNKNOWN_PARTICIPANT = (5, "RC01", "No participant of this network has that identifier.")
    UNKNOWN_ASSET = (6, "AM03", "The network does not hold that currency or asset.")
    ZERO_AMOUNT = (7, "AM01", "An amount of zero cannot be paid.")
    AMOUNT_OUT_OF_RANGE = (8, "AM12", "The amount is outside the range that can be paid.")
    UNBALANCED = (9, "AM09", "The legs do not balance for every participant and asset.")
    EXPIRED = (10, "TM01", "The transaction reached its expiry before it was decided.")
    EXPIRY_TOO_FAR = (11, "DT01", "The expiry lies further ahead than the network allows.")
    DUPLICATE = (12, "AM05", "A transaction with this end-to-end reference was received before.")
    UNSIGNED = (13, "DS0A", "The owner of a debited account did not sign.")
    WRONG_SIGNATURE = (14, "DS0B", "A signature does not verify.")
    TOO_MANY_SIGNERS = (15, "FF01", "The transaction has more signatures than the limit.")
    OVERLOADED = (16, "AB10", "The network holds as many open transactions as it can; send it again later.")
    UNKNOWN_ACCOUNT = (20, "AC01", "There is no such account at that participant.")
    CLOSED_ACCOUNT = (21, "AC04", "The account is closed.")
    BLOCKED_ACCOUNT = (22, "AC06", "The account is blocked.")
    WRONG_ASSET = (23, "AC09", "The account holds another currency or asset.")
    INSUFFICIENT_FUNDS = (24, "AM04", "The account's funds do not cover the amount.")
    ABOVE_LIMIT = (25, "AM02", "The amount is above the institution's limit for one payment.")
    BALANCE_OVERFLOW = (26, "AM12", "The account's balance would leave the range that it can hold.")
    NOT_ISSUER = (27, "AG01", "Only the issuer can issue or redeem, and only by that kind of transaction.")
    ORDER_NOT_POSSIBLE = (28, "AG01", "The account order does not fit the account's state.")
    NOT_EMPTY = (29, "AG01", "The account is not empty or has payments under way.")
    NOT_PROVEN = (30, "NARR", "The legs shown to the participant do not belong to the transaction.")
    APPROVAL_TIMEOUT = (40, "AB05", "A participant concerned did not answer before the expiry.")
    APPROVAL_CONFLICT = (41, "ED05", "The participants' answers do not belong together.")
    WITHDRAWN = (42, "DS02", "The payment was cancelled before it was decided.")

    def __init__(self, number: int, code: str, sentence: str) -> None:
        self.number = number
        self.code = code
        self.sentence = sentence

    @classmethod
    def of(cls, number: int) -> Refusal:
        """The refusal of that number.

        Raises:
            LookupError: there is none.
        """
        return _BY_NUMBER[number]


_BY_NUMBER = {refusal.number: refusal for refusal in Refusal}
