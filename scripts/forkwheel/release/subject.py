"""What is to be built again: a wheel, a manifest with its wheels, or a set that an index serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urljoin

from packaging.utils import canonicalize_name

from forkwheel.errors import FetchError, UsageError, VerificationError
from forkwheel.fetch import FetchContext
from forkwheel.fetch.masking import mask
from forkwheel.recipe import FileSource
from forkwheel.release.carried import Carried, carried_by
from forkwheel.release.index import is_index, read_pages
from forkwheel.release.index_pages import IndexedSet, read_project, read_root
from forkwheel.release.kernels_subject import CarriedKernels, is_kernels_wheel, kernels_alone, kernels_of_set
from forkwheel.release.web_address import read_web_address
from forkwheel.release.wheel_set import (
    BUILT,
    SUFFIX,
    TAKEN,
    SetWheel,
    WheelSet,
    find_manifest,
    load_set,
    verify_set,
)


@dataclass(frozen=True)
class Subject:
    """The wheels to build again, and the manifest that speaks of them, if any.

    ``kernels`` are compiled again, ``taken`` are upstream's own. ``bare`` is a set whose wheels
    are not there: only a checkout can build it again.
    """

    recipe: str
    wheels: tuple[Carried, ...]
    kernels: CarriedKernels | None = None
    taken: tuple[SetWheel, ...] = ()
    document: Mapping[str, Any] | None = None
    bare: WheelSet | None = None


def read_subject(text: str, *, work: Path, context: FetchContext, recipe: str | None = None) -> Subject:
    """Read what a person named: a wheel, a manifest, a folder of either, or the URL of an index.

    What it carries is written below ``work``. Raise UsageError where it is none of these, and
    VerificationError where it is not what it says.
    """
    if "://" in text:
        return _of_set(_downloaded(text, work / "downloaded", context=context, recipe=recipe), work)
    path = Path(text)
    if not path.exists():
        raise UsageError(f"there is no {text}", hint="name a wheel, a manifest, or the URL of an index")
    if path.suffix == ".whl":
        return _of_wheel(path, work)
    if is_index(path):
        chosen = _chosen(read_pages(path).sets, recipe, where=text)
        return _of_set(load_set(path / chosen.manifest, wheels=path), work)
    if path.is_file() and not path.name.endswith(SUFFIX):
        raise UsageError(
            f"{text} is neither a wheel, nor a manifest, nor an index",
            hint=f"name a wheel, a file RECIPE{SUFFIX}, a folder of either, or the URL of an index",
        )
    return _of_set(load_set(find_manifest(path, recipe=recipe)), work)


def _of_wheel(wheel: Path, work: Path) -> Subject:
    if is_kernels_wheel(wheel):
        kernels = kernels_alone(wheel, work)
        return Subject(kernels.recipe.name, (), kernels)
    one = carried_by(wheel, work / "carried" / wheel.name)
    return Subject(one.recipe.name, (one,))


def _of_set(wheels: WheelSet, work: Path) -> Subject:
    if not any(wheel.path.is_file() for wheel in wheels.wheels):
        return Subject(wheels.recipe, (), document=wheels.document, bare=wheels)
    verify_set(wheels)
    by_kind = {kind: [wheel for wheel in wheels.wheels if wheel.kind == kind] for kind in (BUILT, TAKEN)}
    carried = tuple(
        carried_by(wheel.path, work / "carried" / wheel.filename, verified=True) for wheel in by_kind[BUILT]
    )
    kernels = kernels_of_set(wheels, carried, work=work)
    return Subject(wheels.recipe, carried, kernels, tuple(by_kind[TAKEN]), wheels.document)


def _chosen(sets: tuple[IndexedSet, ...], recipe: str | None, *, where: str) -> IndexedSet:
    """Return the newest revision of the recipe that is asked for, or of the only one."""
    named = [one for one in sets if recipe in (None, one.recipe)]
    names = sorted({one.recipe for one in named})
    if not named:
        raise UsageError(f"{where} has no set of recipe {recipe or 'any'}", hint="name a wheel of it instead")
    if len(names) > 1:
        raise UsageError(f"{where} has the sets of {', '.join(names)}", hint="choose one with --recipe")
    return max(named, key=lambda one: one.revision)


def _downloaded(url: str, folder: Path, *, context: FetchContext, recipe: str | None) -> WheelSet:
    """Fetch a set from the index at ``url``, every file checked against the page that lists it."""
    from unearth import Link
    from unearth.collector import is_secure_origin
    from unearth.fetchers import Fetcher

    from forkwheel.fetch.download import download
    from forkwheel.fetch.http_client import open_client
    from forkwheel.fetch.pip_settings import read_pip_settings

    read_web_address(url, what="the index")
    base = url if url.endswith("/") else f"{url}/"
    folder.mkdir(parents=True)
    with open_client(read_pip_settings(), [base], silence=context.silence) as client:
        if not is_secure_origin(cast(Fetcher, client), Link(base)):
            raise FetchError(f"{mask(base)} is neither HTTPS nor a trusted host", hint="use an https:// index")

        def page(address: str) -> bytes:
            response = client.get(address)
            if not response.is_success:
                raise UsageError(
                    f"{mask(address)} answers {response.status_code}: it is no index of forkwheel's",
                    hint="give the URL that pip would be given, such as https://HOST/simple/, or download the wheel",
                )
            return bytes(response.content)

        def save(address: str, name: str, sha256: str) -> None:
            source = FileSource("wheel", name, sha256)
            download(address, folder / name, source=source, client=client, context=context)

        one = _chosen(_parsed(read_root, page(f"{base}index.json"), base)[1], recipe, where=mask(base))
        manifest = Path(one.manifest).name
        save(urljoin(base, f"../{one.manifest}"), manifest, one.sha256)
        wheels = load_set(folder / manifest)
        for project in {canonicalize_name(wheel.package) for wheel in wheels.wheels}:
            address = f"{base}{project}/"
            for file in _parsed(read_project, page(f"{address}index.json"), address)[1]:
                if any(file.filename == wheel.filename for wheel in wheels.wheels):
                    save(urljoin(address, f"../../{_quoted(file.filename)}"), file.filename, file.sha256)
    return wheels


def _quoted(filename: str) -> str:
    return filename.replace("+", "%2B")


def _parsed(reader: Any, content: bytes, address: str) -> Any:
    try:
        return reader(content)
    except ValueError as error:
        raise VerificationError(
            f"{mask(address)} is no index of forkwheel's: {error}", hint="download the wheel, and name it"
        ) from error
