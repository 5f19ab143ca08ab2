from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from forkwheel.children import Children
from forkwheel.cuda import build_root as module
from forkwheel.cuda.build_root import BuildRoot, build_root
from forkwheel.errors import ToolchainError
from forkwheel.store import Store


def seen(root: BuildRoot, *command: str) -> str:
    result = root.run(command, environment=os.environ)
    result.check_returncode()
    return result.stdout.strip()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture(params=[True, False], ids=["namespaces allowed", "a folder of our own"])
def namespaces(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_commands_see_the_stage_at_the_fixed_path(
    tmp_path: Path, store: Store, namespaces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "fixed"
    monkeypatch.setattr(module, "ROOT", place)

    with build_root(store, root=place, namespaces=namespaces) as root:
        (root.stage / "source").write_text("text")

        assert seen(root, "cat", str(place / "source")) == "text"
        assert seen(root, "pwd", "-P") == str(place)
        assert root.staged(f"{place}/source") == root.stage / "source"
    assert not (place / "source").exists()


def test_two_builds_at_once_do_not_see_each_other(tmp_path: Path, store: Store) -> None:
    place = tmp_path / "fixed"
    with build_root(store, root=place) as first:
        if not first.is_mounted:
            pytest.skip("this kernel gives no mount namespace")
        with build_root(store, root=place) as second:
            (first.stage / "file").write_text("first")
            (second.stage / "file").write_text("second")

            assert [seen(root, "cat", str(place / "file")) for root in (first, second)] == ["first", "second"]


def test_a_command_ends_with_the_others(tmp_path: Path, store: Store, namespaces: bool) -> None:
    children = Children()
    timer = threading.Timer(0.5, children.end)
    timer.start()

    with build_root(store, root=tmp_path / "fixed", namespaces=namespaces) as root, pytest.raises(KeyboardInterrupt):
        root.run(["sleep", "60"], environment=os.environ, children=children)


def test_without_namespaces_one_build_waits_for_the_other(tmp_path: Path, store: Store) -> None:
    place = tmp_path / "fixed"
    waited, order = threading.Event(), []

    def other() -> None:
        with build_root(store, root=place, namespaces=False, waiting=waited.set):
            order.append("second")

    with build_root(store, root=place, namespaces=False):
        thread = threading.Thread(target=other)
        thread.start()
        assert waited.wait(10)
        order.append("first")
    thread.join()

    assert order == ["first", "second"]


def test_what_a_killed_build_left_is_removed(tmp_path: Path, store: Store) -> None:
    place = tmp_path / "fixed"
    (place / "left" / "over").mkdir(parents=True)
    place.chmod(0o700)

    with build_root(store, root=place, namespaces=False) as root:
        assert list(root.stage.iterdir()) == []


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, store: Store) -> None:
    place = tmp_path / "fixed"
    place.mkdir(mode=0o755)
    place.chmod(0o755)

    with (
        pytest.raises(ToolchainError, match="mode drwxr-xr-x") as caught,
        build_root(store, root=place, namespaces=False),
    ):
        pass

    assert "drwx------" in caught.value.message


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_link_at_the_fixed_path_is_refused(tmp_path: Path, store: Store, namespaces: bool) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o700)
    (target / "precious").touch()
    place = tmp_path / "fixed"
    place.symlink_to(target)

    with pytest.raises(ToolchainError), build_root(store, root=place, namespaces=namespaces):
        pass

    assert (target / "precious").exists()


def test_a_namespace_that_does_not_really_mount_is_not_used(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NAMESPACES", (("true",), ("no-such-program-anywhere",)))

    with build_root(store, root=tmp_path / "fixed") as root:
        assert not root.is_mounted
        assert root.stage == tmp_path / "fixed"
