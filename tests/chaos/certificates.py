"""Certificates that are good for nothing but a test."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.services import missing
from tests.support.waiting import PATIENCE

NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"
AUTHORITY = "keyUsage=critical,keyCertSign"


@dataclass(frozen=True, slots=True)
class Certificate:
    """Two files, which belong together."""

    certificate: Path
    key: Path


class Certificates:
    """Made by openssl, in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, authority: str) -> Path:
        """Give the certificate of an authority, which is made if need be."""
        made = self._files(authority)
        if not made.certificate.exists():
            self._directory.mkdir(exist_ok=True)
            self._request(made, authority, AUTHORITY)
        return made.certificate

    def make(self, name: str, *, by: str) -> Certificate:
        """Make one for this machine, signed by an authority."""
        signed_by = ("-CA", str(self.path(by)), "-CAkey", str(self._files(by).key))
        made = self._files(name)
        self._request(made, name, NAMES, "-addext", "basicConstraints=CA:FALSE", *signed_by)
        return made

    def _request(self, made: Certificate, name: str, extension: str, *words: str) -> None:
        program = shutil.which("openssl")
        if program is None:
            raise missing("openssl is not installed")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        about = ("-days", "2", "-subj", f"/CN={name}", "-addext", extension)
        files = ("-keyout", str(made.key), "-out", str(made.certificate))
        subprocess.run(
            [program, "req", "-x509", *curve, *about, *files, *words],
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )

    def _files(self, name: str) -> Certificate:
        return Certificate(self._directory / f"{name}.pem", self._directory / f"{name}.key")
