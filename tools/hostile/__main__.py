"""Attacks a network of its own while an honest user pays on it, see README.md.

    python3 tools/hostile PATH-OF-TALLY [TEXT]

TEXT picks the attacks that have it in what is sent.
"""

import importlib
import json
import pathlib
import resource
import sys
import tempfile
import time
import traceback

from attack import ATTACKS, Attack, Scene
from crowd import crowd
from network import ALICE, ALPHA, Network
from payments import Payments
from wire import Closed, request

# The modules of attacks, in this order. Those that take the gateway's connections come last.
ORDER = ("handshakes", "callers", "institutions", "quotas", "bodies", "heads", "streams", "documents", "crowds")
# By how much its memory may grow at any moment, and by how much when all is over.
PEAK_GROWTH_BYTES = 1 << 30
GROWTH_BYTES = 512 << 20
IDLE_AT_THE_END = 100
# What the demonstration gives the payer.
OPENING_CENTS = 10_000_00
MIB = 1 << 20


def tried(attack: Attack, scene: Scene) -> bool:
    """Whether the attack was refused and the honest payments went on; prints a line of it."""
    began = time.monotonic()
    try:
        refusal = attack.run(scene)
        during = scene.payments.during(began)
        during.check()
        assert scene.network.is_running(), "the network ended"
    except Exception as error:
        if not isinstance(error, AssertionError | TimeoutError | Closed):
            traceback.print_exc()
        print(f"FAIL {attack.sent}: {' '.join(str(error).split())[:300]}", flush=True)
        return False
    took_s = time.monotonic() - began
    honest = f"{during.settled} settled, slowest {during.slowest_s:.2f} s"
    print(f"ok   {attack.sent}: {refusal}; {honest}; {took_s:.1f} s", flush=True)
    return True


def afterwards(network: Network, payments: Payments, before: int) -> list[str]:
    """What is wrong when all is over."""
    wrong = []
    peak, after = network.peak_bytes() - before, network.resident_bytes() - before
    print(f"memory: {before // MIB} MiB before, at most {peak // MIB} MiB more, {after // MIB} at the end")
    if peak > PEAK_GROWTH_BYTES:
        wrong.append(
            f"memory grew by {peak // MIB} MiB at its peak; {PEAK_GROWTH_BYTES // MIB} MiB are allowed"
        )
    if after > GROWTH_BYTES:
        wrong.append(f"memory grew by {after // MIB} MiB; {GROWTH_BYTES // MIB} MiB are allowed")
    if not network.is_running():
        return [*wrong, f"the network ended with {network.process.returncode}"]
    answer = request(network.gateway, "GET", f"/v1/accounts/{ALPHA}/{ALICE}", network.tokens["alpha"])
    paid = OPENING_CENTS - int(json.loads(answer.body)["minor_units"])
    if paid != payments.settled():
        wrong.append(
            f"{paid} cents left the payer's account; {payments.settled()} payments of a cent were settled"
        )
    with crowd(IDLE_AT_THE_END, lambda: network.gateway.tls()):
        began = time.monotonic()
        status = network.stop()
        print(f"SIGTERM: ended with {status} after {time.monotonic() - began:.1f} s with idle clients")
    if status != 0:
        wrong.append(f"the network ended with {status} after SIGTERM")
    print(network.audit().strip())
    return wrong


def main() -> int:
    tally, *text = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for module in ORDER:
        importlib.import_module(module)
    chosen = [attack for attack in ATTACKS if all(part in attack.sent for part in text)]
    with tempfile.TemporaryDirectory(prefix="tallystick.") as folder:
        home = pathlib.Path(folder)
        network = Network(pathlib.Path(tally).resolve(), home)
        try:
            payments = Payments(network, home / "payments")
            try:
                payments.go_on(1)
                before = network.resident_bytes()
                scene = Scene(network, payments)
                wrong = [attack.sent for attack in chosen if not tried(attack, scene)]
            finally:
                payments.stop()
            wrong += afterwards(network, payments, before)
        finally:
            network.close()
    print(f"{len(chosen)} attacks, {payments.settled()} honest payments settled")
    for what in wrong:
        print(f"FAIL {what}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
