"""Provenance and its signature: what is stated, and that each tampering has its own message."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from publish_support import allow, make_key, make_lock, make_set, make_wheel

from forkwheel.cli import run
from forkwheel.errors import PublishError, VerificationError
from forkwheel.release.provenance import PREDICATE, STATEMENT, check_provenance
from forkwheel.release.publish import publish_set
from forkwheel.release.signing import check_signature, sign, signature_of
from forkwheel.release.wheel_set import WheelSet, load_set, read_key, verify_set

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


@pytest.fixture
def wheels(tmp_path: Path) -> WheelSet:
    return make_set(tmp_path / "dist")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path, "key")


def test_the_statement_is_slsa_v1_about_every_wheel_and_the_manifest(wheels: WheelSet) -> None:
    document = json.loads(check_provenance(wheels).read_bytes())
    assert (document["_type"], document["predicateType"]) == (STATEMENT, PREDICATE)
    subjects = {item["name"]: item["digest"]["sha256"] for item in document["subject"]}
    assert {wheel.filename: wheel.sha256 for wheel in wheels.wheels}.items() <= subjects.items()
    assert wheels.manifest.name in subjects
    definition = document["predicate"]["buildDefinition"]
    assert definition["buildType"]
    assert definition["externalParameters"]["packages"]["demo"]["key"] == wheels.wheels[1].key
    assert {"sha256": wheels.document["packages"][1]["sources"][0]["sha256"]} in [
        item["digest"] for item in definition["resolvedDependencies"]
    ]
    assert document["predicate"]["runDetails"]["builder"]["id"]


def test_the_same_set_gives_the_same_statement(wheels: WheelSet, tmp_path: Path) -> None:
    other = make_set(tmp_path / "other")
    assert check_provenance(other).read_bytes() == check_provenance(wheels).read_bytes()


def test_a_signed_statement_names_its_signer(wheels: WheelSet, key: Path, tmp_path: Path) -> None:
    statement = check_provenance(wheels)
    sign(statement, key=key)
    assert check_signature(statement, allowed_signers=allow(tmp_path, "release@example.com", key)) == (
        "release@example.com"
    )


def test_another_signer_is_refused(wheels: WheelSet, key: Path, tmp_path: Path) -> None:
    statement = check_provenance(wheels)
    sign(statement, key=make_key(tmp_path, "stranger"))
    with pytest.raises(VerificationError, match="was made by no signer"):
        check_signature(statement, allowed_signers=allow(tmp_path, "release@example.com", key))


def test_an_unsigned_statement_is_refused_where_a_signature_is_asked_for(
    wheels: WheelSet, key: Path, tmp_path: Path
) -> None:
    with pytest.raises(VerificationError, match="is unsigned"):
        check_signature(check_provenance(wheels), allowed_signers=allow(tmp_path, "release@example.com", key))


def test_a_signature_for_another_purpose_is_refused(wheels: WheelSet, key: Path, tmp_path: Path) -> None:
    statement = check_provenance(wheels)
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", "git", str(statement)], check=True)
    with pytest.raises(VerificationError):
        check_signature(statement, allowed_signers=allow(tmp_path, "release@example.com", key))


def test_a_key_that_cannot_sign_is_one_error_without_a_prompt(wheels: WheelSet, tmp_path: Path) -> None:
    (tmp_path / "no-key").write_text("not a key\n")
    with pytest.raises(PublishError, match="could not be signed"):
        sign(check_provenance(wheels), key=tmp_path / "no-key")
    with pytest.raises(PublishError, match="there is no key"):
        sign(check_provenance(wheels), key=tmp_path / "missing")


def signers_of(key: Path, options: str = "") -> str:
    return f"release@example.com {options} {key.with_suffix('.pub').read_text()}"


LISTS = {
    "nobody": lambda key: "",
    "a comment alone": lambda key: "# nobody yet\n",
    "no list": lambda key: "\0\xff not a list\n",
    "a key that was replaced": lambda key: signers_of(key, 'valid-before="20200101"'),
    "a key that is not used yet": lambda key: signers_of(key, 'valid-after="29990101"'),
    "a key for another purpose": lambda key: signers_of(key, 'namespaces="git"'),
}


@pytest.mark.parametrize("what", LISTS)
def test_a_list_that_does_not_allow_the_signature_is_one_error(
    wheels: WheelSet, key: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sign(check_provenance(wheels), key=key)
    (tmp_path / "signers").write_text(LISTS[what](key), encoding="latin-1")
    assert run(["verify", str(wheels.folder), "--allowed-signers", str(tmp_path / "signers")]) == 7
    said = capsys.readouterr()
    assert "fork.provenance.json.sig" in said.err
    assert "signed by" not in said.out


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_list_that_is_no_file_is_one_error(wheels: WheelSet, key: Path, name: str, tmp_path: Path) -> None:
    sign(check_provenance(wheels), key=key)
    assert run(["verify", str(wheels.folder), "--allowed-signers", str(tmp_path / name)]) == 7


def test_a_key_with_a_password_and_nobody_to_ask_is_one_error(wheels: WheelSet, tmp_path: Path) -> None:
    """In a session without a terminal; an agent or a terminal would answer."""
    key = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "hunter2 hunter2", "-f", str(key)], check=True)
    lock = make_lock(tmp_path / "wheels.lock.toml", wheels)
    arguments = ["--from", str(wheels.folder), "--to", str(tmp_path / "index"), "--lock", str(lock)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SSH_", "DISPLAY"))}
    done = subprocess.run(
        [sys.executable, "-m", "forkwheel", "publish", *arguments, "--key", str(key)],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 8, done.stderr
    assert "could not be signed with" in done.stderr
    assert not (tmp_path / "index").exists()
    assert not signature_of(wheels.beside("provenance.json")).exists()


def append(content: bytes) -> bytes:
    return content + b"\n"


def change_parameter(content: bytes) -> bytes:
    return content.replace(b'"target": "sm_120a"', b'"target": "sm_121a"')


TAMPERED: dict[str, tuple[str, Callable[[bytes], bytes], str]] = {
    "a wheel": ("demo-1.0+fork.1-py3-none-any.whl", append, r"demo-1\.0\+fork\.1.*fork\.manifest\.json says"),
    "the manifest": ("fork.manifest.json", append, "fork.manifest.json has the SHA-256 .*provenance.json says"),
    "the statement": ("fork.provenance.json", change_parameter, "does not say what the manifest says"),
    "the signature": (
        "fork.provenance.json.sig",
        lambda content: content.replace(b"\n", b"\nAAAA", 1),
        "sig was made by no signer|is no valid signature",
    ),
    "the requirements": ("fork.requirements.txt", append, "requirements.txt is not what"),
    "the constraints": ("fork.constraints.txt", append, "constraints.txt is not what"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_each_tampering_has_its_own_message(
    wheels: WheelSet, key: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sign(check_provenance(wheels), key=key)
    arguments = ["verify", str(wheels.folder), "--allowed-signers", str(allow(tmp_path, "release@example.com", key))]
    assert run(arguments) == 0
    name, change, message = TAMPERED[what]
    file = wheels.folder / name
    file.write_bytes(change(file.read_bytes()))
    assert run(arguments) == 7
    error = capsys.readouterr().err
    assert re.search(message, error), error


def test_a_statement_that_was_signed_and_then_changed_with_its_manifest_is_refused(
    wheels: WheelSet, key: Path, tmp_path: Path
) -> None:
    statement = check_provenance(wheels)
    sign(statement, key=key)
    statement.write_bytes(statement.read_bytes().replace(b"sm_120a", b"sm_121a"))
    with pytest.raises(VerificationError, match="is no valid signature"):
        check_signature(statement, allowed_signers=allow(tmp_path, "release@example.com", key))


def test_a_wheel_that_records_another_key_than_the_manifest_is_refused(wheels: WheelSet) -> None:
    wheels.manifest.write_text(wheels.manifest.read_text().replace(wheels.wheels[0].key, "0" * 64))
    with pytest.raises(VerificationError, match="records the key"):
        verify_set(load_set(wheels.manifest))


def test_a_wheel_whose_key_is_not_that_of_its_parts_is_refused(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "demo", "1.0", key="0" * 64)
    with pytest.raises(VerificationError, match="the digest of its parts"):
        read_key(wheel)


def test_a_set_without_a_statement_is_refused(wheels: WheelSet) -> None:
    wheels.beside("provenance.json").unlink()
    with pytest.raises(VerificationError, match="no provenance"):
        check_provenance(wheels)


def test_publish_signs_and_never_shows_the_key(
    wheels: WheelSet, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORKWHEEL_SIGNING_KEY", str(key))
    lock = make_lock(tmp_path / "wheels.lock.toml", wheels)
    index = tmp_path / "index"
    assert run(["publish", "--from", str(wheels.folder), "--to", str(index), "--lock", str(lock)]) == 0
    assert signature_of(index / "sets/fork/1/fork.provenance.json").is_file()
    signers = allow(tmp_path, "release@example.com", key)
    assert run(["verify", str(index), "--allowed-signers", str(signers)]) == 0
    said = capsys.readouterr()
    secret = key.read_text().splitlines()[1]
    assert "signed by release@example.com" in said.out
    assert secret not in said.out + said.err
    assert not [file for file in index.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


def test_verify_says_that_a_set_is_unsigned(wheels: WheelSet, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", str(wheels.folder)]) == 0
    assert "the provenance is unsigned" in capsys.readouterr().out


def test_an_index_is_verified_with_its_sets(wheels: WheelSet, tmp_path: Path) -> None:
    publish_set(tmp_path / "index", wheels)
    (tmp_path / "index/sets/fork/1/fork.provenance.json").write_text("{}")
    assert run(["verify", str(tmp_path / "index")]) == 7
