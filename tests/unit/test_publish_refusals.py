"""What is never published, and why it says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from publish_support import make_lock, make_set, make_wheel, parts_of, write_recipe

from forkwheel.cli import run
from forkwheel.cuda.kernels_lock import KernelsLock, LockedKernels
from forkwheel.errors import PublishError, VerificationError
from forkwheel.key import Key
from forkwheel.outputs import _write_beside
from forkwheel.release.manifest import write_json
from forkwheel.release.publish import publish_set, verify_index
from forkwheel.release.publishable import check_publishable, kernel_wheels, problems
from forkwheel.release.wheel_set import WheelSet, load_set
from forkwheel.tree import sha256_file


@pytest.fixture
def wheels(tmp_path: Path) -> WheelSet:
    return make_set(tmp_path / "dist")


@pytest.fixture
def lock(wheels: WheelSet, tmp_path: Path) -> Path:
    return make_lock(tmp_path / "wheels.lock.toml", wheels)


def test_a_locked_set_may_go_out(wheels: WheelSet, lock: Path) -> None:
    check_publishable(wheels, lock=lock)


def test_a_development_build_is_refused(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dev", local="fork.dev.k1234567", revision=0)
    lock = make_lock(tmp_path / "wheels.lock.toml", make_set(tmp_path / "dist"))
    with pytest.raises(PublishError, match="is a development build"):
        check_publishable(wheels, lock=lock)


def test_a_development_build_that_calls_itself_a_revision_is_refused(wheels: WheelSet, lock: Path) -> None:
    document = json.loads(wheels.manifest.read_bytes())
    document["packages"][0]["development"] = True
    wheels.manifest.write_text(json.dumps(document))
    with pytest.raises(PublishError, match="is a development build"):
        check_publishable(load_set(wheels.manifest), lock=lock)


def test_without_a_lock_nothing_goes_out(wheels: WheelSet, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match="there is no lock"):
        check_publishable(wheels, lock=tmp_path / "none.toml")


def test_a_build_whose_bytes_are_not_the_locks_is_refused(wheels: WheelSet, lock: Path) -> None:
    lock.write_text(lock.read_text().replace(f'sha256 = "{wheels.wheels[0].sha256}"', f'sha256 = "{"0" * 64}"'))
    with pytest.raises(PublishError, match="has the SHA-256"):
        check_publishable(wheels, lock=lock)


def test_a_build_whose_key_is_not_the_locks_is_refused(wheels: WheelSet, lock: Path) -> None:
    first = parts_of("base", "1.0+fork.1")
    other = Key((first[0], ("tree", "0" * 64)))
    text = lock.read_text().replace(first[1][1], "0" * 64).replace(Key(first).digest, other.digest)
    lock.write_text(text)
    with pytest.raises(PublishError, match="has the key"):
        check_publishable(wheels, lock=lock)


def test_a_set_that_lacks_a_locked_wheel_is_refused(wheels: WheelSet, lock: Path, tmp_path: Path) -> None:
    part = make_set(tmp_path / "part", names=("base",))
    with pytest.raises(PublishError, match="the set lacks demo-"):
        check_publishable(part, lock=lock)


RECORDS = {
    "smoke": {"verdict": "FAIL", "checks": [{"name": "fusion 2 ranks", "status": "FAIL", "detail": "off by 3"}]},
    "controls": {"verdict": "FAIL", "checks": []},
    "census": {"failures": ["480 kernels are empty"]},
    "audit": {"difference": [{"change": "newly closed", "place": "demo.py:3", "condition": "is_sm90()"}]},
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_set_whose_check_failed_is_refused(wheels: WheelSet, lock: Path, name: str) -> None:
    wheels.beside(f"{name}.json").write_text(json.dumps(RECORDS[name]))
    with pytest.raises(PublishError, match=f"fork.{name}.json: "):
        check_publishable(wheels, lock=lock)


def test_a_record_that_cannot_be_read_is_refused(wheels: WheelSet, lock: Path) -> None:
    wheels.beside("census.json").write_text("{")
    with pytest.raises(PublishError, match="cannot be read"):
        check_publishable(wheels, lock=lock)


def test_a_skip_is_no_failure() -> None:
    document = {"verdict": "PASS", "failures": [], "checks": [{"name": "peers", "status": "SKIP", "detail": ""}]}
    assert list(problems(document)) == []


def test_the_command_refuses_with_its_own_exit_code_and_leaves_no_index(
    wheels: WheelSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["publish", "--from", str(wheels.folder), "--to", str(tmp_path / "index")]
    assert run(arguments) == 8
    assert "there is no lock recipes/fork/wheels.lock.toml" in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


def test_a_manifest_whose_wheel_lies_elsewhere_is_refused(wheels: WheelSet, tmp_path: Path) -> None:
    document = json.loads(wheels.manifest.read_bytes())
    document["packages"][0]["wheel"]["filename"] = "../base-1.0+fork.1-py3-none-any.whl"
    wheels.manifest.write_text(json.dumps(document))
    assert run(["verify", str(wheels.folder)]) == 7


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"schema": 2}', b'{"schema": 1}', b'{"schema": 1, "packages": [1]}']
)
def test_what_is_no_manifest_is_one_error(wheels: WheelSet, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    wheels.manifest.write_bytes(content)
    assert run(["verify", str(wheels.folder)]) == 7
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--to", "a", "--repository", "b"],
        ["--yank", "x.whl"],
        ["--yank", "x.whl", "--to", "nowhere", "--reason", "r"],
    ],
)
def test_publishing_to_nowhere_is_a_usage_error(
    wheels: WheelSet, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(wheels.folder.parent)
    assert run(["publish", *arguments]) == 2


def publish(wheels: WheelSet, lock: Path, index: Path, *more: str) -> int:
    return run(["publish", "--from", str(wheels.folder), "--lock", str(lock), "--to", str(index), *more])


def test_publish_says_where_the_index_is_and_how_to_install(
    wheels: WheelSet, lock: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert publish(wheels, lock, Path("my index")) == 0
    said = capsys.readouterr().out
    index = tmp_path / "my index"
    assert f"the index: --find-links '{index}', or --index-url {index.as_uri()}/simple/" in said
    requirements = index / "sets/fork/1/fork.requirements.txt"
    assert f"pip install --no-deps --require-hashes --find-links '{index}' -r '{requirements}'" in said
    assert requirements.is_file()


@pytest.mark.parametrize("released", [True, False])
def test_publishing_what_the_lock_may_still_rewrite_is_warned_of(
    wheels: WheelSet, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, released: bool
) -> None:
    lock = make_lock(tmp_path / "wheels.lock.toml", wheels, released=released)
    assert publish(wheels, lock, tmp_path / "index", "--json") == 0
    said = capsys.readouterr()
    assert ("revision 1 is not marked released" in said.err) is not released
    assert json.loads(said.out)["released"] is released


@pytest.mark.parametrize("file", ["", "recipe.toml"])
def test_a_recipe_may_be_given_by_its_path(
    wheels: WheelSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make_set(wheels.folder, recipe="other", local="other.1", names=("single",))
    make_lock(write_recipe(tmp_path / "mine") / "wheels.lock.toml", wheels)
    arguments = ["publish", "--from", str(wheels.folder), "--to", "index", "--recipe"]
    assert run([*arguments, str(Path("mine") / file)]) == 0
    assert run([*arguments, str(tmp_path / "nowhere")]) == 2


def test_a_recipe_that_the_folder_has_no_set_of_is_named_with_those_it_has(
    wheels: WheelSet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_set(wheels.folder, recipe="other", local="other.1", names=("single",))
    assert run(["publish", "--from", str(wheels.folder), "--recipe", "p64", "--to", str(tmp_path / "index")]) == 2
    assert "has no set of p64; it has those of: fork, other" in capsys.readouterr().err


def kernels(wheels: WheelSet, *, version: str = "1.0+fork.1", fast: bool = False) -> Path:
    """Put a wheel of kernels and its record beside a set, and return the wheel."""
    wheel = make_wheel(wheels.folder, "demo_kernels", version)
    digest = sha256_file(wheel)
    made = {"filename": wheel.name, "sha256": digest, "size": wheel.stat().st_size}
    module = {"name": "ops", "sha256": digest, "size": 1, "device": [digest]}
    record = {"wheel": made, "key": "0" * 64, "fast": fast, "parts": {}, "targets": ["sm_120a"], "modules": [module]}
    wheels.beside("kernels.json").write_text(json.dumps(record))
    return wheel


def lock_kernels(folder: Path, wheel: Path) -> None:
    build = LockedKernels("1.0+fork.1", "0" * 64, "gcc 12", wheel.name, sha256_file(wheel), ())
    KernelsLock(folder / "kernels.lock.toml", (build,)).write()


def test_a_locked_wheel_of_kernels_goes_out_with_its_set(wheels: WheelSet, lock: Path, tmp_path: Path) -> None:
    wheel = kernels(wheels)
    lock_kernels(lock.parent, wheel)
    arguments = ["publish", "--from", str(wheels.folder), "--lock", str(lock), "--to", str(tmp_path / "index")]
    assert run(arguments) == 0
    assert (tmp_path / "index" / wheel.name).is_file()
    assert "demo_kernels" in (tmp_path / "index/simple/demo-kernels/index.html").read_text()


def test_a_wheel_of_kernels_that_no_lock_has_is_refused(wheels: WheelSet, lock: Path) -> None:
    kernels(wheels)
    with pytest.raises(PublishError, match="is not in the kernels' lock"):
        kernel_wheels(wheels, recipe_folder=lock.parent)


@pytest.mark.parametrize("more", [{"fast": True}, {"version": "1.0+fork.9"}])
def test_a_fast_or_foreign_wheel_of_kernels_is_refused(wheels: WheelSet, lock: Path, more: dict[str, object]) -> None:
    lock_kernels(lock.parent, kernels(wheels, **more))  # type: ignore[arg-type]
    with pytest.raises(PublishError, match="a fast build, or of another version"):
        kernel_wheels(wheels, recipe_folder=lock.parent)


def test_a_tampered_wheel_of_kernels_is_refused(wheels: WheelSet, lock: Path) -> None:
    wheel = kernels(wheels)
    lock_kernels(lock.parent, wheel)
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(VerificationError, match="has the SHA-256"):
        kernel_wheels(wheels, recipe_folder=lock.parent)


def test_a_package_with_several_wheels_and_a_taken_one_are_verified_and_pinned(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dist")
    document = json.loads(wheels.manifest.read_bytes())
    for package in document["packages"]:
        wheel = package.pop("wheel")
        shared = {name: package[name] for name in ("key", "parts", "tree")}
        package["wheels"] = [{**wheel, **shared, "tags": "py3-none-any"}]
    upstream = make_wheel(wheels.folder, "other", "3.0")
    made = {"filename": upstream.name, "sha256": sha256_file(upstream), "size": upstream.stat().st_size}
    document["taken"] = [{"name": "other", "version": "3.0", "wheel": made}]
    wheels.manifest.write_bytes(write_json(document))
    _write_beside(wheels.manifest, document)
    loaded = load_set(wheels.manifest)
    with pytest.raises(PublishError, match="does not list other-3"):
        check_publishable(loaded, lock=make_lock(tmp_path / "lock", wheels))
    check_publishable(loaded, lock=make_lock(tmp_path / "lock", loaded))
    assert f"other==3.0 --hash=sha256:{made['sha256']}" in wheels.beside("requirements.txt").read_text()
    publish_set(tmp_path / "index", loaded)
    verify_index(tmp_path / "index")
    upstream.write_bytes(upstream.read_bytes() + b"\0")
    with pytest.raises(VerificationError, match="other-3"):
        check_publishable(loaded, lock=tmp_path / "lock")


def test_kernels_in_the_manifest_are_pinned_and_still_need_their_lock(
    wheels: WheelSet, lock: Path, tmp_path: Path
) -> None:
    wheel = kernels(wheels)
    document = json.loads(wheels.manifest.read_bytes())
    document["kernels"] = json.loads(wheels.beside("kernels.json").read_bytes())
    wheels.manifest.write_bytes(write_json(document))
    _write_beside(wheels.manifest, document)
    wheels.beside("kernels.json").unlink()
    assert "demo-kernels==1.0+fork.1 --hash=sha256:" in wheels.beside("requirements.txt").read_text()
    arguments = ["publish", "--from", str(wheels.folder), "--lock", str(lock), "--to", str(tmp_path / "index")]
    assert run(arguments) == 8
    lock_kernels(lock.parent, wheel)
    assert run(arguments) == 0
    assert run(["verify", str(tmp_path / "index")]) == 0
