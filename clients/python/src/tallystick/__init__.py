"""Client of a Tallystick gateway: builds, checks and signs payments itself, and verifies proofs offline.

`Tallystick` asks a gateway; `Proof`, `Receipt` and `Consistency` are checked without one; `errors` says what can go
wrong.
"""

from . import errors, models
from .accounts import Opened
from .client import Tallystick
from .errors import TallystickError
from .events import Event, Events
from .keys import PublicKey, SigningKey, passphrase
from .log import Consistency, SignedTreeHead, TreeHead, WitnessedHeads
from .network import Account, AccountId, Asset, Institution, Network
from .order import AccountOrder, Close, Freeze, Open, Release, SetFloor
from .proof import Proof, Verified
from .receipt import Receipt
from .refusal import Refusal
from .transaction import Kind, Leg, Signature, Transaction, payment_legs
from .trust import Keys
from .witness import Cosignature, Witness

__all__ = [
    "Account",
    "AccountId",
    "AccountOrder",
    "Asset",
    "Close",
    "Consistency",
    "Cosignature",
    "Event",
    "Events",
    "Freeze",
    "Institution",
    "Keys",
    "Kind",
    "Leg",
    "Network",
    "Open",
    "Opened",
    "Proof",
    "PublicKey",
    "Receipt",
    "Refusal",
    "Release",
    "SetFloor",
    "Signature",
    "SignedTreeHead",
    "SigningKey",
    "Tallystick",
    "TallystickError",
    "Transaction",
    "TreeHead",
    "Verified",
    "Witness",
    "WitnessedHeads",
    "errors",
    "models",
    "passphrase",
    "payment_legs",
]
