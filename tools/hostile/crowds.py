"""Connections that are many, idle or slow. Time itself is the attack here."""

import threading
import time

from attack import Scene, attack, refused
from crowd import Joining, crowd, drip, greeting, is_over, tcp
from institutions import reference
from network import BETA
from wire import Connection, head

# More than the gateway serves at once.
CROWD = 1_100
IDLE = 10_000
PROOFS = 300
# http.max_connections of the network, and what else it has open.
MOST_FILES = 1024 + 128
# http.request_timeout_ms of the network, and some time to notice.
LONGEST_S = 10.0
SLACK_S = 3.0
HONEST_MESSAGES = 5


@attack(f"{IDLE:,} TCP connections that say nothing")
def idle(scene: Scene) -> str:
    path = f"/v1/transactions/{reference(scene)}/proof"
    asking = head("GET", path, scene.network.tokens["alpha"])
    with Connection(scene.gateway) as earlier:
        earlier.send(asking)
        refused(earlier.answer(), "200")
        with crowd(IDLE, lambda: tcp(scene)) as streams:
            for _ in range(HONEST_MESSAGES):
                # Who was there before keeps the connection, and gets what the gateway opens files for.
                earlier.send(asking)
                refused(earlier.answer(), "200")
                scene.payments.go_on(1)
            files = scene.network.files()
            assert files <= MOST_FILES, f"the gateway has {files} files open"
            return f"{files} files open in place of {len(streams)}"


@attack(f"{CROWD:,} connections with TLS that ask nothing")
def idle_tls(scene: Scene) -> str:
    with crowd(CROWD, Joining(scene, b"")) as streams:
        scene.payments.go_on(HONEST_MESSAGES)
        return f"{sum(map(is_over, streams))} of {len(streams)} cut off"


@attack(f"{CROWD:,} connections that say one byte of a handshake or a head a second")
def loris(scene: Scene) -> str:
    with crowd(CROWD // 2, lambda: tcp(scene)) as greeters, crowd(CROWD // 2, Joining(scene, b"")) as askers:
        data = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
        dripping = [
            threading.Thread(target=drip, args=(greeters, greeting(scene), LONGEST_S + SLACK_S)),
            threading.Thread(target=drip, args=(askers, data, LONGEST_S + SLACK_S)),
        ]
        for thread in dripping:
            thread.start()
        scene.payments.go_on(HONEST_MESSAGES)
        for thread in dripping:
            thread.join()
        left = [stream for stream in greeters + askers if not is_over(stream)]
        assert not left, f"{len(left)} of {len(greeters + askers)} go on after {LONGEST_S + SLACK_S:.0f} s"
        return "all cut off"


@attack(f"{CROWD:,} users' bodies of one byte a second")
def slow_bodies(scene: Scene) -> str:
    token = scene.network.tokens["beta"]
    begun = head("POST", "/v1/iso20022/prepare", token, content_type="application/xml", content_length="1000")
    with crowd(CROWD, Joining(scene, begun)) as streams:
        dripping = threading.Thread(target=drip, args=(streams, b"<" * 100, LONGEST_S + SLACK_S))
        dripping.start()
        scene.payments.go_on(HONEST_MESSAGES)
        dripping.join()
        left = [stream for stream in streams if not is_over(stream)]
        assert not left, f"{len(left)} of {len(streams)} go on after {LONGEST_S + SLACK_S:.0f} s"
        return "all cut off"


@attack("one body of one byte a second")
def slow_body(scene: Scene) -> str:
    token = scene.network.tokens["beta"]
    with Connection(scene.gateway) as connection:
        connection.send(
            head("POST", "/v1/iso20022/prepare", token, content_type="application/xml", content_length="1000")
        )
        began = time.monotonic()
        drip([connection.stream], b"<" * 100, LONGEST_S - 1.0)
        refusal = refused(connection.answer(SLACK_S), "408 timeout")
        took_s = time.monotonic() - began
        assert took_s <= LONGEST_S + SLACK_S, f"cut off after {took_s:.1f} s"
        return f"{refusal} after {took_s:.1f} s, {connection.ends()}"


@attack(f"{PROOFS} proofs asked for at once by one user")
def proofs(scene: Scene) -> str:
    path = f"/v1/transactions/{reference(scene)}/proof?legs={BETA}"
    asking = head("GET", path, scene.network.tokens["beta"], connection="close")
    with crowd(PROOFS, Joining(scene, asking)) as streams:
        scene.payments.go_on(HONEST_MESSAGES)
        for stream in streams:
            stream.settimeout(LONGEST_S)
            with stream.makefile("rb") as answer:
                first = answer.readline()
            assert first.startswith(b"HTTP/1.1 200"), first
        return "200 to each, in its turn"


@attack(f"{CROWD:,} connections that do not read their answers")
def unread(scene: Scene) -> str:
    with crowd(CROWD, Joining(scene, head("GET", "/openapi.json") * 8, reads=False)) as streams:
        before = scene.network.resident_bytes()
        scene.payments.go_on(HONEST_MESSAGES)
        grown = scene.network.resident_bytes() - before
        return f"{len(streams)} connections, {max(grown, 0) >> 20} MiB"
