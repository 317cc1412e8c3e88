"""TLS that is old, weak or none; client certificates that should open nothing."""

import subprocess

from attack import Scene, attack, ended, refused
from network import ALICE, ALPHA, BETA, BOB
from wire import PROMPT_S, Closed, Connection, head

REQUEST = head("GET", "/v1/network", connection="close")


def s_client(scene: Scene, *options: str) -> str:
    """What `openssl s_client` says of a connection with these options and one request without a token."""
    gateway = scene.gateway
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"{gateway.host}:{gateway.port}", "-CAfile", gateway.authority,
         "-ign_eof", *options],
        input=REQUEST, capture_output=True, timeout=PROMPT_S,
    )  # fmt: skip
    return (done.stdout + done.stderr).decode("latin-1")


def said(text: str, *wanted: str) -> str:
    for alert in wanted:
        if alert in text:
            return alert
    raise AssertionError(f"openssl says none of {wanted}: {text[-600:]}")


# A gateway that knows no older protocol says one or the other (RFC 8446, section 6.2).
TOO_OLD = ("alert protocol version", "alert handshake failure")


@attack("openssl s_client: TLS 1.0")
def oldest(scene: Scene) -> str:
    return said(s_client(scene, "-tls1", "-cipher", "ALL:@SECLEVEL=0"), *TOO_OLD)


@attack("openssl s_client: TLS 1.1")
def old(scene: Scene) -> str:
    return said(s_client(scene, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"), *TOO_OLD)


@attack("openssl s_client: TLS 1.2 with AES128-SHA")
def weak(scene: Scene) -> str:
    return said(s_client(scene, "-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0"), "alert handshake failure")


@attack("openssl s_client: TLS 1.2 without authentication of the server")
def anonymous(scene: Scene) -> str:
    return said(s_client(scene, "-tls1_2", "-cipher", "aNULL:@SECLEVEL=0"), "alert handshake failure")


@attack("openssl s_client: no server name, no token")
def nameless(scene: Scene) -> str:
    return said(s_client(scene, "-noservername"), "HTTP/1.1 401")


@attack("openssl s_client: SPDY alone by ALPN")
def spdy(scene: Scene) -> str:
    return said(s_client(scene, "-alpn", "spdy/3.1"), "alert no application protocol")


@attack("plain HTTP to the TLS port")
def plain(scene: Scene) -> str:
    with scene.gateway.tcp() as stream:
        stream.sendall(REQUEST)
        answer = b""
        try:
            while data := stream.recv(4096):
                answer += data
        except ConnectionResetError:
            pass
    # A TLS record of the kind alert (RFC 8446, section 5.1), or nothing.
    assert not answer or answer[0] == 21, answer
    return "TLS alert" if answer else "closed"


@attack("noise in place of a handshake")
def noise(scene: Scene) -> str:
    with scene.gateway.tcp() as stream:
        stream.sendall(bytes(range(256)) * 64)
        try:
            while data := stream.recv(4096):
                assert data[0] == 21, data
        except ConnectionResetError:
            pass
    return "closed"


def shown(scene: Scene, certificate: str, *wanted: str) -> str:
    """What a client with that certificate gets, which has no token."""
    try:
        with Connection(scene.gateway, scene.network.certificates.path(certificate)) as connection:
            connection.send(REQUEST)
            return refused(connection.answer(), *wanted)
    except Closed as closed:
        return ended(str(closed), *wanted)


@attack("client certificate of a user, for what is not its own")
def known(scene: Scene) -> str:
    certificate = scene.network.certificates.path("known")
    with Connection(scene.gateway, certificate) as connection:
        # Its own first: otherwise the refusals of other certificates would say nothing.
        connection.send(head("GET", f"/v1/accounts/{BETA}/{BOB}"))
        refused(connection.answer(), "200")
        connection.send(head("GET", f"/v1/accounts/{ALPHA}/{ALICE}"))
        return refused(connection.answer(), "403 forbidden")


@attack("client certificate of the authority, of no user")
def unknown(scene: Scene) -> str:
    return shown(scene, "unknown", "401 unknown")


@attack("client certificate of another authority with the same name")
def impostor(scene: Scene) -> str:
    return shown(
        scene,
        "impostors",
        "TLSV1_ALERT_DECRYPT_ERROR",
        "TLSV1_ALERT_UNKNOWN_CA",
        "SSLV3_ALERT_BAD_CERTIFICATE",
    )


@attack("client certificate that has run out")
def run_out(scene: Scene) -> str:
    return shown(scene, "run-out", "SSLV3_ALERT_CERTIFICATE_EXPIRED")


@attack("client certificate that signed itself")
def self_signed(scene: Scene) -> str:
    return shown(scene, "self-signed", "TLSV1_ALERT_UNKNOWN_CA")


@attack("client certificate that is for servers")
def for_servers(scene: Scene) -> str:
    return shown(scene, "servers", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE")
