"""An honest user who pays all the time: each message goes over a new connection, as `tally pay` makes it."""

import dataclasses
import pathlib
import threading
import time
import uuid

from network import ALICE, ALPHA, BETA, BOB, Network

# What an honest user may have to wait, whatever others do.
SLOWEST_S = 5.0
# Longer than `tally` waits: its failure says more than that nothing came.
PATIENCE_S = 60.0
PAYMENTS_IN_A_MESSAGE = 5
PACE_S = 0.1

PAYMENT = """<CdtTrfTxInf><PmtId><EndToEndId>{name}</EndToEndId><UETR>{uetr}</UETR></PmtId>
<Amt><InstdAmt Ccy="EUR">0.01</InstdAmt></Amt>
<CdtrAgt><FinInstnId><BICFI>{creditor_bic}</BICFI></FinInstnId></CdtrAgt><Cdtr><Nm>Bob Bernard</Nm></Cdtr>
<CdtrAcct><Id><IBAN>{creditor}</IBAN></Id></CdtrAcct></CdtTrfTxInf>"""
MESSAGE = """<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"><CstmrCdtTrfInitn>
<GrpHdr><MsgId>{name}</MsgId><CreDtTm>2025-03-03T08:15:00Z</CreDtTm><NbOfTxs>{count}</NbOfTxs>
<InitgPty><Nm>Alice Ahrens</Nm></InitgPty></GrpHdr>
<PmtInf><PmtInfId>{name}</PmtInfId><PmtMtd>TRF</PmtMtd><ReqdExctnDt><Dt>2025-03-03</Dt></ReqdExctnDt>
<Dbtr><Nm>Alice Ahrens</Nm></Dbtr><DbtrAcct><Id><IBAN>{debtor}</IBAN></Id></DbtrAcct>
<DbtrAgt><FinInstnId><BICFI>{debtor_bic}</BICFI></FinInstnId></DbtrAgt>{payments}</PmtInf></CstmrCdtTrfInitn></Document>
"""


def message(name: str, count: int) -> str:
    """A pain.001 by which Alice, at Alpha Bank, pays Bob, at Beta Banque, a cent so many times."""
    payments = "".join(
        PAYMENT.format(name=f"{name}-{position}", uetr=uuid.uuid4(), creditor_bic=BETA, creditor=BOB)
        for position in range(count)
    )
    return MESSAGE.format(name=name, count=count, debtor=ALICE, debtor_bic=ALPHA, payments=payments)


@dataclasses.dataclass(frozen=True)
class Sent:
    """A message that was answered, or not."""

    started: float
    took_s: float
    settled: int
    trouble: str


@dataclasses.dataclass(frozen=True)
class During:
    """What became of payments that began while something else went on."""

    settled: int
    slowest_s: float
    troubles: list[str]

    def check(self) -> None:
        assert not self.troubles, f"honest payments suffered: {self.troubles[0]}"
        assert self.settled > 0, "no honest payment was made meanwhile"
        assert self.slowest_s <= SLOWEST_S, f"an honest message took {self.slowest_s:.2f} s"


class Payments:
    """Pays from its start to its stop."""

    def __init__(self, network: Network, folder: pathlib.Path) -> None:
        self.network = network
        self.folder = folder
        folder.mkdir()
        self.sent: list[Sent] = []
        self.known = threading.Condition()
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._pay, name="payments")
        self.thread.start()

    def during(self, began: float) -> During:
        """Of the messages sent since then; waits for one that was sent after this call, and its outcome."""
        self.go_on(1)
        with self.known:
            meanwhile = [sent for sent in self.sent if sent.started + sent.took_s >= began]
        return During(
            settled=sum(sent.settled for sent in meanwhile),
            slowest_s=max(sent.took_s for sent in meanwhile),
            troubles=[sent.trouble for sent in meanwhile if sent.trouble],
        )

    def go_on(self, messages: int) -> None:
        """Waits for so many messages that are sent after this call, and for their outcomes."""
        now = time.monotonic()
        with self.known:
            came = self.known.wait_for(
                lambda: len(self.sent) >= messages and self.sent[-messages].started >= now, PATIENCE_S
            )
        assert came, f"the honest user waits for more than {PATIENCE_S} s"

    def settled(self) -> int:
        """How many payments were made, of a cent each."""
        return sum(sent.settled for sent in self.sent)

    def stop(self) -> None:
        self.ends.set()
        self.thread.join()

    def _pay(self) -> None:
        number = 0
        while not self.ends.wait(PACE_S):
            number += 1
            sent = self._send(f"HONEST-{number}")
            with self.known:
                self.sent.append(sent)
                self.known.notify_all()

    def _send(self, name: str) -> Sent:
        path = self.folder / "message.xml"
        path.write_text(message(name, PAYMENTS_IN_A_MESSAGE))
        started = time.monotonic()
        done = self.network.call("pay", str(path), token=self.network.tokens["alpha"])
        took_s = time.monotonic() - started
        settled = sum(line.startswith("ACSC") for line in done.stdout.splitlines())
        whole = done.returncode == 0 and settled == PAYMENTS_IN_A_MESSAGE
        trouble = (
            "" if whole else f"after {took_s:.2f} s {settled} settled: {done.stdout}{done.stderr}".strip()
        )
        return Sent(started, took_s, settled, trouble)
