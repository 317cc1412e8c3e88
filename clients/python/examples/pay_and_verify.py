"""Opens an account in each of two banks, pays from one to the other, and verifies the proof of it offline.

    python examples/pay_and_verify.py --url https://127.0.0.1:8443 --network net --out proof.json

`net` is the directory of a network, whose banks' keys sign the orders.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tallystick import Keys, Network, Proof, SigningKey, Tallystick, passphrase


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--network", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("proof.json"))
    arguments = parser.parse_args()
    directory: Path = arguments.network

    # From elsewhere than the gateway: whose keys count, and what assets are.
    trusted = Network.read(directory)
    secret = passphrase(directory)
    alpha, beta = (
        SigningKey.read(directory / "keys" / "institutions" / f"{bic}.pem", secret) for bic in ("ALPHDEFF", "BETAFRPP")
    )
    payer, payee = SigningKey.generate(), SigningKey.generate()

    token = (directory / "token").read_text()
    with Tallystick(arguments.url, token=token, ca=directory / "tls" / "ca.pem", network=trusted) as tally:
        print(f"network {trusted.id.hex()}: {tally.ready().text}")
        debtor = tally.open_account("ALPHDEFF", "EUR", payer.public_key, alpha, floor="-100.00")
        print(f"ALPHDEFF opened account {debtor.number}, which may go down to -100.00 EUR")
        creditor = tally.open_account("BETAFRPP", "EUR", payee.public_key, beta)
        print(f"BETAFRPP opened account {creditor.number}")

        outcome = tally.transfer(f"ALPHDEFF/{debtor.number}", f"BETAFRPP/{creditor.number}", "12.34", "EUR", payer)
        print(f"payment {outcome.uetr}: {outcome.status} as number {outcome.sequence} in the network's order")
        for entry in tally.statement(f"BETAFRPP/{creditor.number}"):
            print(f"BETAFRPP/{creditor.number}: {entry.amount} on {entry.time}, balance {entry.balance}")
        # By the id of what was signed: another transaction may have had the same UETR before.
        arguments.out.write_bytes(tally.proof(outcome.id, legs=["ALPHDEFF"]).document)

    # From here on no network: whoever has the file and the public keys can do the same.
    proven = Proof.read(arguments.out).verify(Keys.of(trusted))
    approved = ", ".join(answer.bic for answer in proven.answers)
    print(f"proven: {proven.uetr} is final as number {proven.sequence}, approved by {approved}")
    for position, leg in proven.legs:
        amount = f"{leg.amount} minor units of {trusted.assets[leg.asset].code}"
        print(f"leg {position}: {amount} on account {leg.account} of {trusted.institutions[leg.participant].bic}")
    print(f"not shown: {proven.hidden_legs} legs")


if __name__ == "__main__":
    main()
