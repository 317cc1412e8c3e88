"""Client certificates, good and bad, made by openssl."""

import pathlib
import subprocess

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
# For `openssl ca`, which alone can make a certificate whose time is over.
PAST = """
[ca]
default_ca = here
[here]
new_certs_dir = {folder}
database = {folder}/index
default_md = sha256
rand_serial = yes
policy = any
x509_extensions = client
[any]
commonName = supplied
[client]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
"""


class Certificates:
    """Two authorities: one that the gateway names, and one that it does not."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "index").touch()
        (folder / "past.cnf").write_text(PAST.format(folder=folder))
        self.authority = self._authority("authority", "Clients' authority")
        # The same name, so that only its key tells it from the other.
        self.impostor = self._authority("impostor", "Clients' authority")
        # All of them belong to users, so that nothing but the certificate itself can be what is refused.
        self.made = {
            "known": self.signed("known"),
            "impostors": self.signed("impostors", self.impostor),
            "run-out": self._expired("run-out"),
            "self-signed": self._root("self-signed", "self-signed", "CA:FALSE"),
            "servers": self.signed("servers", usage="serverAuth"),
        }

    def signed(
        self, name: str, authority: pathlib.Path | None = None, usage: str = "clientAuth"
    ) -> pathlib.Path:
        """A certificate that is valid for a day."""
        authority = authority or self.authority
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"basicConstraints = CA:FALSE\nextendedKeyUsage = {usage}\n")
        certificate = self.path(name)
        self._openssl(
            "x509", "-req", "-in", self._request(name), "-CA", authority,
            "-CAkey", authority.with_suffix(".key"), "-days", "1", "-extfile", extensions,
            "-out", certificate,
        )  # fmt: skip
        return certificate

    def _expired(self, name: str) -> pathlib.Path:
        """A certificate of the right authority that was valid for a day in 2020."""
        certificate = self.path(name)
        self._openssl(
            "ca", "-batch", "-config", self.folder / "past.cnf", "-cert", self.authority,
            "-keyfile", self.authority.with_suffix(".key"), "-in", self._request(name), "-out", certificate,
            "-startdate", "20200101000000Z", "-enddate", "20200102000000Z", "-notext",
        )  # fmt: skip
        return certificate

    def _authority(self, name: str, subject: str) -> pathlib.Path:
        return self._root(name, subject, "CA:TRUE")

    def _root(self, name: str, subject: str, constraint: str) -> pathlib.Path:
        certificate = self.path(name)
        self._openssl(
            "req", "-x509", *CURVE, "-keyout", certificate.with_suffix(".key"), "-subj", f"/CN={subject}",
            "-addext", f"basicConstraints = critical,{constraint}", "-days", "1", "-out", certificate,
        )  # fmt: skip
        return certificate

    def _request(self, name: str) -> pathlib.Path:
        request = self.folder / f"{name}.csr"
        self._openssl(
            "req", *CURVE, "-keyout", self.folder / f"{name}.key", "-subj", f"/CN={name}", "-out", request
        )
        return request

    def path(self, name: str) -> pathlib.Path:
        return self.folder / f"{name}.pem"

    @staticmethod
    def _openssl(*arguments: str | pathlib.Path) -> None:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}"
