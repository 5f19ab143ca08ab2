"""Small finished sets, made on the spot, for the tests of publishing, verifying and reporting."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from forkwheel.key import BUILD_FORMAT, Key
from forkwheel.outputs import _write_beside
from forkwheel.release.lock import LockedWheel, Revision, WheelsLock
from forkwheel.release.manifest import write_json
from forkwheel.release.wheel_set import SetWheel, WheelSet, load_set
from forkwheel.wheels.archive import Member, archive
from forkwheel.wheels.record import write_record

EPOCH = 1_700_000_000


def parts_of(name: str, version: str) -> tuple[tuple[str, str], ...]:
    """Return the parts of a wheel's build key."""
    return (("format", str(BUILD_FORMAT)), ("tree", sha256(f"{name} {version}".encode()).hexdigest()))


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    files: Mapping[str, bytes] | None = None,
    requires: tuple[str, ...] = (),
    key: str | None = None,
) -> Path:
    """Write a sound wheel with a licence and, where ``key`` is given, the record of it."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.8\n"
    metadata += "".join(f"Requires-Dist: {text}\n" for text in requires)
    contents = {f"{name}/__init__.py": f"__version__ = '{version}'\n".encode(), **(files or {})}
    contents[f"{info}/METADATA"] = metadata.encode()
    contents[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents[f"{info}/licenses/LICENSE"] = b"do as you like\n"
    if key is not None:
        record = {"format": 1, "package": name, "version": version, "key": key, "parts": dict(parts_of(name, version))}
        contents[f"{info}/forkwheel/key.json"] = json.dumps(record).encode()
    members = [Member(path, content) for path, content in contents.items()]
    members.append(Member(f"{info}/RECORD", write_record(members, name=f"{info}/RECORD")))
    path = folder / f"{name}-{version}-py3-none-any.whl"
    path.write_bytes(b"".join(archive(members, epoch=EPOCH)))
    return path


def make_set(
    folder: Path,
    *,
    recipe: str = "fork",
    local: str = "fork.1",
    names: tuple[str, ...] = ("base", "demo"),
    revision: int = 1,
) -> WheelSet:
    """Write a set of wheels with its manifest, provenance and install files; ``demo`` requires ``base``."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = []
    for name in names:
        version = f"1.0+{local}"
        key = Key(parts_of(name, version)).digest
        requires = (f"base=={version}", "extra") if name == "demo" else ()
        packages.append(_package(make_wheel(folder, name, version, requires=requires, key=key), name, version, key))
    about = {"name": recipe, "local": "fork", "revision": revision, "target": "sm_120a"}
    document = {"schema": 1, "recipe": about, "packages": packages}
    manifest = folder / f"{recipe}.manifest.json"
    manifest.write_bytes(write_json(document))
    _write_beside(manifest, document)
    return load_set(manifest)


def _package(wheel: Path, name: str, version: str, key: str) -> dict[str, Any]:
    content = wheel.read_bytes()
    return {
        "name": name,
        "version": version,
        "upstream_version": "1.0",
        "epoch": EPOCH,
        "development": ".dev." in version,
        "wheel": {"filename": wheel.name, "sha256": sha256(content).hexdigest(), "size": len(content)},
        "key": key,
        "parts": dict(parts_of(name, version)),
        "tree": key,
        "sources": [{"kind": "sdist", "filename": f"{name}-1.0.tar.gz", "sha256": key}],
        "requires": {},
        "patches": [],
        "patched_files": {},
        "inputs": [],
    }


def _locked(wheel: SetWheel) -> LockedWheel:
    parts = parts_of(wheel.package, wheel.version)
    key = Key(parts).digest
    return LockedWheel(wheel.package, wheel.version, key, wheel.filename, wheel.sha256, wheel.size, parts)


def make_lock(file: Path, wheels: WheelSet, *, released: bool = False) -> Path:
    """Write the lock in which a set is a revision."""
    locked = tuple(_locked(one) for one in wheels.wheels)
    WheelsLock(file, (Revision(wheels.revision, released, locked),)).write()
    return file


def write_recipe(folder: Path) -> Path:
    """Write a recipe called fork that lies in no folder ``recipes``."""
    folder.mkdir(parents=True)
    text = '[recipe]\nname = "fork"\nlocal = "fork"\nrevision = 1\n\n[[package]]\nname = "demo"\nversion = "1.0"\n'
    text += (
        f'epoch = {EPOCH}\n\n[[package.source]]\nkind = "sdist"\nfilename = "demo-1.0.tar.gz"\nsha256 = "{"0" * 64}"\n'
    )
    (folder / "recipe.toml").write_text(text)
    return folder


def make_key(folder: Path, name: str) -> Path:
    """Make an SSH key without a password."""
    key = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True)
    return key


def allow(folder: Path, signer: str, key: Path) -> Path:
    """Write the list of a signer who is allowed."""
    file = folder / "allowed_signers"
    file.write_text(f'{signer} namespaces="forkwheel" {key.with_suffix(".pub").read_text()}')
    return file


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, as any web server would, and give its URL."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, links followed, with its bytes."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
