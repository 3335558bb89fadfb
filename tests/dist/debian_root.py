"""A Debian in a folder, in which dpkg works as on a machine of that release."""

from __future__ import annotations

import os
import pathlib
import subprocess

from support.paths import REPOSITORY

# One archive of each, made once.
_ARCHIVES = REPOSITORY / "build/dist/roots"


def archive(suite: str, package: str = "") -> pathlib.Path:
    """That of a minimal Debian, with `package` where it is named; made by mmdebstrap where it is missing."""
    path = _ARCHIVES / f"{suite}{package and '-'}{package}.tar"
    if not path.exists():
        _ARCHIVES.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".new.tar")
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io",
             f"--include=ca-certificates,{package}", suite, unfinished], check=True)
        unfinished.rename(path)
    return path


class DebianRoot:
    """The root in `folder`, as it is in `packed`."""

    def __init__(self, packed: pathlib.Path, folder: pathlib.Path) -> None:
        self.folder = folder
        subprocess.run(["tar", "--extract", "--file", packed, "--directory", folder], check=True)

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess:
        """`command` there, with a /proc of its own."""
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$1/proc" && exec chroot "$@"', "sh",
             self.folder, *command],
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                 "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def install(self, package: pathlib.Path, *options: str) -> str:
        """What dpkg prints."""
        inside = self.folder / "package.deb"
        inside.unlink(missing_ok=True)
        os.link(package, inside) if package.stat().st_dev == self.folder.stat().st_dev else \
            inside.write_bytes(package.read_bytes())
        done = self.run("dpkg", *options, "--install", "/package.deb")
        return done.stdout + done.stderr

    def status(self, package: str) -> str:
        """`install ok installed`, say; empty where dpkg knows nothing of it."""
        return self.run("dpkg-query", "--show", "--showformat=${Status}", package, check=False).stdout

    def attributes(self, path: str) -> str:
        """`user:group mode`."""
        return self.run("stat", "--format=%U:%G %a", path).stdout.strip()
