"""A gateway that gives the answers that it was told to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tallystick import Network

HEALTHY = b'{"healthy": true, "text": "payments are taken"}'


@dataclass
class Reply:
    status: int = 200
    body: bytes = HEALTHY
    headers: dict[str, str] = field(default_factory=dict)
    is_cut_off: bool = False
    stays_open: bool = False
    """After its body, nothing more is said, and the connection is kept."""


@dataclass
class Gateway:
    """Gives its replies one after the other, and notes what it was asked."""

    replies: list[Reply]
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""


_ENDLESS = str(1 << 40)


@contextmanager
def gateway(*replies: Reply) -> Iterator[Gateway]:
    told = Gateway(list(replies))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            told.asked.append((self.command, self.path, headers, body))
            # Whoever comes again and again is sent away.
            reply = told.replies.pop(0) if told.replies else problem(401)
            if reply.is_cut_off:
                self.close_connection = True
                return
            self.send_response(reply.status)
            self.send_header("content-length", _ENDLESS if reply.stays_open else str(len(reply.body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            if reply.stays_open:
                self.wfile.flush()
                self.rfile.read(1)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        told.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()


def problem(status: int, code: str = "busy", **headers: str) -> Reply:
    details = {"type": f"urn:tallystick:problem:{code}", "title": "t", "status": status, "detail": "d", "code": code}
    return Reply(
        status, json.dumps(details).encode(), {name.replace("_", "-"): value for name, value in headers.items()}
    )


def network_view(network: Network) -> Reply:
    view = {
        "id": network.id.hex(),
        "participants": [
            {"bic": one.bic, "name": "O=X,C=DE", "key": str(one.key), "settlement_floors": [[0, -5]]}
            for one in network.institutions
        ],
        "assets": [
            {"code": one.code, "kind": "currency", "exponent": one.exponent, "settled_at": 0, "largest_payment": 1}
            for one in network.assets
        ],
        "signatures": "required",
        "longest_validity_ms": 1,
    }
    health = json.loads(HEALTHY)
    return Reply(
        body=json.dumps({"network": view, "kinds": [], "totals": [], "sequence": 0, "health": health}).encode()
    )
