"""A network of its own, with TLS, users and client certificates."""

import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import threading

from certificates import Certificates
from wire import Gateway

ALPHA, BETA = "ALPHDEFF", "BETAFRPP"
# By the user's name: institution, roles, and what else was agreed.
TOKENS = {
    "alpha": (ALPHA, "submit,approve,read"),
    "alpha-reader": (ALPHA, "read"),
    "alpha-submitter": (ALPHA, "submit"),
    "alpha-clerk": (ALPHA, "submit,read"),
    "beta": (BETA, "submit,approve,read"),
    "beta-revoked": (BETA, "read"),
    "beta-run-out": (BETA, "read", "--expires", "2020-01-01T00:00:00Z"),
    "beta-small": (BETA, "submit,read", "--per-second", "1", "--burst", "20"),
}
ALICE, BOB = "DE20999000010000000001", "FR7699999000010000000000115"
FILES = 1024
STARTS_WITHIN_S = 30.0
STOPS_WITHIN_S = 30.0


def few_files() -> None:
    """Lets a process open as many files as most shells do, until it asks for more."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, most), most))


class Network:
    """A running network; its directory is thrown away by whoever gave it."""

    def __init__(self, tally: pathlib.Path, home: pathlib.Path) -> None:
        self.tally = tally
        self.directory = home / "network"
        self.certificates = Certificates(home / "certificates")
        self._run(
            "network", "init", str(self.directory), "--demo", "--weak-keys", "--tls", "localhost,127.0.0.1"
        )
        self._configure()
        self.tokens = {name: self._grant(name, *rights) for name, rights in TOKENS.items()}
        for name, certificate in self.certificates.made.items():
            self._grant(name, BETA, "read", "--certificate", str(certificate))
        self.certificates.signed("unknown")
        self.log = (home / "network.log").open("wb")
        self.process = subprocess.Popen(
            [tally, "network", "run", self.directory],
            stdout=self.log,
            stderr=self.log,
            env=self._environment(),
            preexec_fn=few_files,
        )
        address = self._address()
        self.gateway = Gateway(address[0], address[1], self.directory / "tls" / "ca.pem")

    def _environment(self, token: str | None = None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
        kept["TALLY_NETWORK"] = str(self.directory)
        return kept if token is None else kept | {"TALLY_TOKEN": token}

    def _run(self, *arguments: str) -> str:
        done = self.call(*arguments)
        assert done.returncode == 0, f"tally {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def call(
        self, *arguments: str, token: str | None = None, within_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs `tally` for the user with that token, or for the network's own."""
        return subprocess.run(
            [self.tally, *arguments],
            capture_output=True,
            text=True,
            timeout=within_s,
            env=self._environment(token),
        )

    def _configure(self) -> None:
        """Has the gateway take certificates of the clients' authority."""
        path = self.directory / "network.toml"
        text, changed = re.subn(
            r"(?m)^\[http\.tls\]$", f'[http.tls]\nclients = "{self.certificates.authority}"', path.read_text()
        )
        assert changed == 1, f"{path} has no section http.tls"
        path.write_text(text)

    def _address(self) -> tuple[str, int]:
        ready = self.directory / "run.json"
        poll = threading.Event()
        for _ in range(int(STARTS_WITHIN_S / 0.05)):
            assert self.process.poll() is None, f"the network ended: {self.log.name}"
            if ready.exists():
                host, _, port = str(json.loads(ready.read_text())["address"]).rpartition(":")
                return host, int(port)
            poll.wait(0.05)
        raise TimeoutError(f"the network did not start: {self.log.name}")

    def _grant(self, name: str, institution: str, roles: str, *more: str) -> str:
        """Lets a user in; returns the token, if there is one."""
        return self._run(
            "access", "grant", name, "--institution", institution, "--roles", roles, *more
        ).strip()

    def revoke(self, name: str) -> None:
        self._run("access", "revoke", name)

    def resident_bytes(self) -> int:
        """Memory of the process that is in use."""
        pages = int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def peak_bytes(self) -> int:
        """The most memory that the process ever had in use."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"(?m)^VmHWM:\s+(\d+) kB$", status)
        assert found, "this system does not say how much memory a process had"
        return int(found[1]) << 10

    def files(self) -> int:
        """How many files and connections the process has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def is_running(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> int:
        """Asks it to end, and returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOPS_WITHIN_S)

    def close(self) -> None:
        if self.is_running():
            self.process.kill()
            self.process.wait()
        self.log.close()

    def audit(self) -> str:
        return self._run("audit", str(self.directory))
