"""What belongs to another institution, and what a user has no role for."""

import functools
import json

from attack import Scene, attack, refused
from network import ALICE, ALPHA, BETA, BOB
from payments import message
from wire import Answer, request

XML = "application/xml"


def asked(user: str, path: str, wanted: str, scene: Scene) -> str:
    return refused(request(scene.gateway, "GET", path, scene.network.tokens[user]), wanted)


ASKED = [
    ("balance of another institution's account", "beta", f"/v1/accounts/{ALPHA}/{ALICE}", "403 forbidden"),
    (
        "statement of another institution's account",
        "beta",
        f"/v1/accounts/{ALPHA}/{ALICE}/statement",
        "403 forbidden",
    ),
    # As for one that is there: the refusal does not tell which accounts there are.
    (
        "balance of an account that another institution has not",
        "beta",
        f"/v1/accounts/{ALPHA}/0",
        "403 forbidden",
    ),
    ("another institution's books", "beta", f"/v1/accounts/{ALPHA}", "403 forbidden"),
    ("another's reserves", "beta", f"/v1/accounts/TSCBDEFF/settlement:EUR:{ALPHA}", "403 forbidden"),
    ("totals of everybody, without the role operate", "beta", "/metrics", "403 forbidden"),
    ("a balance, without the role read", "alpha-submitter", f"/v1/accounts/{ALPHA}/{ALICE}", "403 forbidden"),
]
for sent, user, path, wanted in ASKED:
    attack(f"asks for {sent}")(functools.partial(asked, user, path, wanted))


def prepared(scene: Scene, user: str, count: int = 1) -> Answer:
    body = message("TAKEN", count).encode()
    return request(scene.gateway, "POST", "/v1/iso20022/prepare", scene.network.tokens[user], body, XML)


def draft(scene: Scene) -> bytes:
    """A payment of Alice's, as Alpha Bank gets it to sign."""
    return str(json.loads(prepared(scene, "alpha").body)["payments"][0]["draft"]["transaction"]).encode()


@attack("a payment message that takes from another institution's account")
def taken_by_message(scene: Scene) -> str:
    answer = prepared(scene, "beta")
    refused(answer, "200")
    (payment,) = json.loads(answer.body)["payments"]
    assert payment["draft"] is None, payment
    assert payment["refused"]["code"] == "AG01", payment
    return f"AG01, {payment['refused']['text']}"


@attack("a batch that takes from another institution's account")
def taken_by_batch(scene: Scene) -> str:
    tokens, batch = scene.network.tokens, draft(scene)
    answer = request(scene.gateway, "POST", "/v1/transactions", tokens["beta"], batch, "text/plain")
    return refused(answer, "403 forbidden")


@attack("a batch that nobody signed")
def unsigned(scene: Scene) -> str:
    tokens, batch = scene.network.tokens, draft(scene)
    answer = request(scene.gateway, "POST", "/v1/transactions", tokens["alpha"], batch, "text/plain")
    (outcome,) = json.loads(answer.body)["outcomes"]
    assert outcome["status"] == "RJCT" and outcome["reason"]["code"] == "DS0A", outcome
    return "RJCT DS0A"


def ordered(user: str, wanted: str, arguments: tuple[str, ...], scene: Scene) -> str:
    """The keys are there, so that only who hands the order in can be what is refused."""
    done = scene.network.call(*arguments, token=scene.network.tokens[user])
    assert done.returncode == 2 and wanted in done.stderr, f"{done.returncode}: {done.stdout}{done.stderr}"
    return wanted


FREEZE = ("account", "freeze", ALPHA, ALICE)
ISSUE = ("issue", f"{ALPHA}/{ALICE}", "1.00", "EUR")
ORDERED = [
    (
        "the order to freeze another institution's account",
        "beta",
        f"forbidden: beta does not act for {ALPHA}",
        FREEZE,
    ),
    ("the order to freeze, without the role approve", "alpha-clerk", "has not the role approve", FREEZE),
    ("an issue of another institution's", "beta", f"forbidden: beta does not act for {ALPHA}", ISSUE),
    ("an issue, without the role approve", "alpha-clerk", "has not the role approve", ISSUE),
]
for sent, user, wanted, arguments in ORDERED:
    attack(f"hands in {sent}")(functools.partial(ordered, user, wanted, arguments))


def reference(scene: Scene) -> str:
    """Of a payment that Alpha Bank and Beta Banque know."""
    path = f"/v1/accounts/{ALPHA}/{ALICE}/statement?limit=1"
    answer = request(scene.gateway, "GET", path, scene.network.tokens["alpha"])
    return str(json.loads(answer.body)["entries"][0]["uetr"])


@attack("asks for a proof with another institution's legs")
def legs(scene: Scene) -> str:
    path = f"/v1/transactions/{reference(scene)}/proof?legs="
    # Its own legs are shown: otherwise the refusal would say nothing.
    asked("beta", path + BETA, "200", scene)
    asked("beta", f"{path}{BETA},{ALPHA}", "403 forbidden", scene)
    return asked("beta", path + ALPHA, "403 forbidden", scene)


@attack("asks for a proof without legs, and looks for accounts in it")
def blind(scene: Scene) -> str:
    path = f"/v1/transactions/{reference(scene)}/proof"
    answer = request(scene.gateway, "GET", path, scene.network.tokens["beta"])
    refused(answer, "200")
    text = answer.body.decode()
    assert ALICE not in text and BOB not in text, text
    return "200, without accounts"


def without_submit(path: str, content_type: str, scene: Scene) -> str:
    token = scene.network.tokens["alpha-reader"]
    return refused(request(scene.gateway, "POST", path, token, b"", content_type), "403 forbidden")


for path, content_type in (
    ("/v1/iso20022/prepare", XML),
    ("/v1/iso20022/submit", "application/json"),
    ("/v1/transactions", "text/plain"),
    ("/v1/accounts", "text/plain"),
):
    attack(f"POST {path} with the role read alone")(functools.partial(without_submit, path, content_type))
