"""The Debian package as dpkg installs, upgrades and removes it, on Debian 12 and 13, with systemd and
without."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess

import pytest

from conftest import VERSION, artefact
from debian_root import DebianRoot, archive

SETTINGS = "/etc/memoryd/memoryd.yaml"
KEPT = "/var/lib/memoryd/memoryd.db"
# As unattended-upgrades answers what dpkg would ask.
UNATTENDED = ("--force-confdef", "--force-confold")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="roots of Debian want root")


@pytest.fixture(scope="module")
def package() -> pathlib.Path:
    return artefact("memoryd_*.deb")


@pytest.fixture(scope="module")
def later(package, tmp_path_factory) -> pathlib.Path:
    """The package of a later version, whose settings have a line more."""
    folder = tmp_path_factory.mktemp("later")
    subprocess.run(["dpkg-deb", "--raw-extract", package, folder / "tree"], check=True)
    control = folder / "tree/DEBIAN/control"
    control.write_text(re.sub("(?m)^Version: .*$", r"\g<0>+later", control.read_text(encoding="utf-8")),
                       encoding="utf-8")
    with open(folder / f"tree{SETTINGS}", "a", encoding="utf-8") as settings:
        settings.write("# Of the later version.\n")
    built = folder / "memoryd.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", folder / "tree", built],
                   check=True, capture_output=True)
    return built


@pytest.fixture(params=["bookworm", "bookworm-systemd", "trixie", "trixie-systemd"])
def root(request, tmp_path) -> DebianRoot:
    return DebianRoot(archive(*request.param.split("-")), tmp_path)


def settings_of(root: DebianRoot) -> str:
    return (root.folder / SETTINGS[1:]).read_text(encoding="utf-8")


def check_works(root: DebianRoot) -> None:
    assert root.status("memoryd") == "install ok installed"
    assert root.attributes(SETTINGS) == "root:memoryd 640"
    assert root.run("memoryd", "--version").stdout == f"memoryd {VERSION}\n"
    told = root.run("setpriv", "--reuid=memoryd", "--regid=memoryd", "--init-groups", "memoryd",
                    f"--config={SETTINGS}", "--check-config")
    assert told.stdout == "the settings are valid\n"


def test_is_installed_removed_and_installed_again(root, package):
    root.install(package)
    check_works(root)
    assert root.run("dpkg", "--verify", "memoryd").stdout == ""
    store = root.folder / KEPT[1:]
    store.parent.mkdir()
    store.write_text("kept", encoding="utf-8")
    root.install(package)
    check_works(root)

    root.run("dpkg", "--remove", "memoryd")
    assert root.status("memoryd") == "deinstall ok config-files"
    assert not (root.folder / "usr/lib/memoryd").exists() and settings_of(root)
    root.install(package)
    check_works(root)

    root.run("dpkg", "--purge", "memoryd")
    assert "installed" not in root.status("memoryd").split()
    assert not (root.folder / "etc/memoryd").exists()
    assert store.read_text(encoding="utf-8") == "kept"
    root.run("getent", "passwd", "memoryd")
    root.install(package)
    check_works(root)


def test_an_upgrade_brings_new_settings_and_keeps_owner_and_mode(root, package, later):
    root.install(package)
    root.run("chown", "memoryd:root", SETTINGS)
    root.run("chmod", "0400", SETTINGS)
    root.install(later)
    assert root.status("memoryd") == "install ok installed"
    assert settings_of(root).endswith("# Of the later version.\n")
    assert root.attributes(SETTINGS) == "memoryd:root 400"


def test_an_upgrade_keeps_settings_that_were_changed(root, package, later):
    root.install(package)
    (root.folder / SETTINGS[1:]).write_text("log_level: debug\n", encoding="utf-8")
    root.install(later, *UNATTENDED)
    check_works(root)
    assert settings_of(root) == "log_level: debug\n"


def test_settings_that_were_deleted_stay_so(root, package, later):
    root.install(package)
    for following in (package, later):
        (root.folder / SETTINGS[1:]).unlink(missing_ok=True)
        root.install(following, *UNATTENDED)
        assert root.status("memoryd") == "install ok installed"
        assert not (root.folder / SETTINGS[1:]).exists()
    root.run("dpkg", "--purge", "memoryd")


def test_an_override_of_dpkg_stands(root, package):
    root.run("dpkg-statoverride", "--add", "root", "root", "0600", SETTINGS)
    root.install(package)
    assert root.attributes(SETTINGS) == "root:root 600"


def test_what_systemd_refuses_stops_nothing(root, package, later):
    (root.folder / "run/systemd/system").mkdir(parents=True)
    asked = root.folder / "asked"
    refusing = root.folder / "usr/local/bin/systemctl"
    refusing.write_text('#!/bin/sh\necho "$*" >>/asked\nexit 1\n', encoding="utf-8")
    refusing.chmod(0o755)
    root.install(package)
    check_works(root)
    root.install(later)
    assert re.search("(?m)daemon-reload$", asked.read_text(encoding="utf-8"))
    assert re.search("(?m)try-restart.* memoryd.service$", asked.read_text(encoding="utf-8"))
    asked.unlink()
    root.run("dpkg", "--remove", "memoryd")
    assert re.search("(?m)stop.* memoryd.service$", asked.read_text(encoding="utf-8"))
    root.run("dpkg", "--purge", "memoryd")
    assert "installed" not in root.status("memoryd").split()


@pytest.mark.parametrize("root", ["bookworm-systemd", "trixie-systemd"], indirect=True)
def test_what_was_enabled_is_so_until_it_is_removed(root, package, later):
    link = root.folder / "etc/systemd/system/multi-user.target.wants/memoryd.service"
    root.install(package)
    assert not link.is_symlink()
    root.run("systemctl", "enable", "memoryd")
    assert link.is_symlink()
    root.install(later)
    assert link.is_symlink()
    root.run("dpkg", "--remove", "memoryd")
    assert not link.is_symlink()
