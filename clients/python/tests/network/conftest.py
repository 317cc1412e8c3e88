"""The network that scripts/check-client-python runs."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Running

from tallystick import Network, Tallystick


@pytest.fixture(scope="session")
def running() -> Running:
    return Running(
        os.environ["TALLYSTICK_URL"], Path(os.environ["TALLYSTICK_NETWORK"]), Path(os.environ["TALLYSTICK_PROGRAM"])
    )


@pytest.fixture(scope="session")
def tally(running: Running) -> Iterator[Tallystick]:
    with Tallystick(running.url, token=running.token, ca=running.ca, network=Network.read(running.directory)) as tally:
        yield tally
