"""A demo network that runs, and what lies in its directory."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path

from tallystick import SigningKey, Tallystick, passphrase
from tallystick.errors import UnauthorizedError

ALICE, ALBERT, BOB = "DE20999000010000000001", "DE90999000010000000002", "FR7699999000010000000000115"
_NUMBERS = count()


@dataclass(frozen=True)
class Running:
    url: str
    directory: Path
    program: Path

    @property
    def token(self) -> str:
        return (self.directory / "token").read_text()

    @property
    def ca(self) -> Path:
        return self.directory / "tls" / "ca.pem"

    @cached_property
    def _passphrase(self) -> str:
        return passphrase(self.directory)

    def bank(self, bic: str) -> SigningKey:
        return SigningKey.read(self.directory / "keys" / "institutions" / f"{bic}.pem", self._passphrase)

    def customer(self, iban: str) -> SigningKey:
        return SigningKey.read(self.directory / "keys" / "customers" / f"{iban}.pem", self._passphrase)

    def customers(self) -> list[SigningKey]:
        return [self.customer(path.stem) for path in (self.directory / "keys" / "customers").glob("*.pem")]

    def command(self, *arguments: str | Path) -> str:
        """What the program says, which must end well."""
        command = [self.program, "--network", self.directory, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the network's program
        assert done.returncode == 0, done.stderr
        return done.stdout

    def user(self, institution: str, roles: str) -> Tallystick:
        """A user of one institution; the gateway knows new ones within a second."""
        return self.named_user(f"user{next(_NUMBERS)}", institution, roles)

    def named_user(self, name: str, institution: str, roles: str) -> Tallystick:
        """As `user`, of that name."""
        token = self.command("access", "grant", name, "--institution", institution, "--roles", roles).split()[-1]
        return Tallystick(self.url, token=token, ca=self.ca)


def until(works: Callable[[], object]) -> None:
    """Waits until a user who was just let in is known."""
    deadline = time.monotonic() + 10
    while True:
        try:
            works()
        except UnauthorizedError:
            assert time.monotonic() < deadline
        else:
            return
