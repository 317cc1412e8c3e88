"""The client of a gateway."""

from __future__ import annotations

import os

from .messages import Messages
from .network import Network
from .payments import Payments
from .transport import Transport


class Tallystick(Payments, Messages):
    """A gateway, asked by one user; it is not trusted with what is signed or proven.

        with Tallystick("https://gateway.example", token=token, ca="ca.pem", network=Network.read("net")) as tally:
            print(tally.account("ALPHDEFF/DE20999000010000000001").balance)

    Safe to share between threads.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        certificate: tuple[str, str] | None = None,
        network: Network | None = None,
        timeout_s: float = 40.0,
        retries: int = 3,
    ) -> None:
        """`url` is `https://HOST:PORT`; `http` is taken on loopback only.

        Args:
            url: where the gateway is.
            token: the user's token.
            ca: file with the certificates of the authorities by which the gateway is known; else the system's.
            certificate: files of a client certificate and its key, for users who are known by one.
            network: the configuration to hold the gateway to, from elsewhere; without it, the gateway is taken at its
                word for who takes part, with which keys, and what assets are.
            timeout_s: for each step of a request; gateways answer a payment after 30 s at the latest. To connect, at
                most 5 s.
            retries: how often a request that is safe to repeat is sent again.
        """
        transport = Transport(url, token=token, ca=ca, certificate=certificate, timeout_s=timeout_s, retries=retries)
        super().__init__(transport, network)
