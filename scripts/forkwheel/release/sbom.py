"""The software bill of materials that each wheel carries (PEP 770, CycloneDX 1.6).

It says what the wheel is made of: the upstream pin that it descends from, the patches in
full, the code that upstream vendors, and the requirements that its build used. It holds
inputs only, so that it is the same on every host.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable
from datetime import datetime, timezone
from urllib.parse import quote

from cyclonedx.model import (
    AttachedText,
    Encoding,
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import (
    Component,
    ComponentScope,
    ComponentType,
    Diff,
    Patch,
    PatchClassification,
    Pedigree,
)
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from forkwheel.patching.series import Patch as SeriesPatch
from forkwheel.patching.series import Series
from forkwheel.recipe import FileSource, GitSource, Package, Submodule
from forkwheel.release.inputs import LockedRequirement

PATH = "sboms/forkwheel.cdx.json"


def sbom(
    *,
    package: Package,
    version: str,
    key: str,
    series: Series,
    inputs: Iterable[LockedRequirement],
) -> bytes:
    """Return the bill of materials of the wheel of ``package`` at ``version``, as JSON.

    ``key`` is the build key (hex): the serial number is derived from it and the name, the
    time is the package's epoch. ``inputs`` are the locked requirements of its build.
    """
    root = _root(package, version=version, series=series)
    components = [_vendored(submodule) for submodule in _submodules(package)]
    components += [_requirement(requirement) for requirement in inputs]
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, f"{canonicalize_name(package.name)} {version} {key}"),
        metadata=BomMetaData(
            component=root,
            timestamp=datetime.fromtimestamp(package.epoch, tz=timezone.utc),
            tools=None,
            properties=[Property(name="forkwheel:key", value=key)],
        ),
        components=components,
    )
    bom.register_dependency(root, components)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _purl(name: str, version: str) -> PackageURL:
    return PackageURL(type="pypi", name=canonicalize_name(name), version=version)


def _root(package: Package, *, version: str, series: Series) -> Component:
    purl = _purl(package.name, version)
    order = ", ".join(patch.name for patch in series.patches) or "none"
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=version,
        purl=purl,
        bom_ref=purl.to_string(),
        pedigree=Pedigree(
            ancestors=[_upstream(package)],
            patches=[_patch(patch) for patch in series.patches],
            notes=f"patches, in the order in which they are applied: {order}",
        ),
    )


def _upstream(package: Package) -> Component:
    purl = _purl(package.name, package.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        purl=purl,
        bom_ref=f"upstream:{purl.to_string()}",
        external_references=[
            _git_reference(source) if isinstance(source, GitSource) else _file_reference(source)
            for source in package.sources
        ],
    )


def _git_reference(source: GitSource) -> ExternalReference:
    where = f"in the folder {source.subdirectory}" if source.subdirectory else None
    return ExternalReference(
        type=ExternalReferenceType.VCS,
        url=XsUri(quote(f"git+{source.url}@{source.commit}", safe=_URL_SAFE)),
        comment=where,
    )


def _file_reference(source: FileSource) -> ExternalReference:
    kind = ExternalReferenceType.SOURCE_DISTRIBUTION if source.kind == "sdist" else ExternalReferenceType.DISTRIBUTION
    return _file(source.filename, source.sha256, kind=kind)


def _file(filename: str, sha256: str, *, kind: ExternalReferenceType) -> ExternalReference:
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)]
    return ExternalReference(type=kind, url=XsUri(quote(filename)), hashes=hashes)


def _patch(patch: SeriesPatch) -> Patch:
    return Patch(
        type=PatchClassification.UNOFFICIAL,
        diff=Diff(text=_text(patch.content), url=XsUri(quote(f"../forkwheel/patches/{patch.name}"))),
    )


def _text(content: bytes) -> AttachedText:
    try:
        return AttachedText(content=content.decode(), content_type="text/x-diff")
    except UnicodeDecodeError:
        encoded = base64.b64encode(content).decode()
        return AttachedText(content=encoded, content_type="text/x-diff", encoding=Encoding.BASE_64)


def _submodules(package: Package) -> tuple[Submodule, ...]:
    return next((source.submodules for source in package.sources if isinstance(source, GitSource)), ())


def _vendored(submodule: Submodule) -> Component:
    """Describe code that upstream includes; it is delivered in the wheel."""
    name = submodule.path.rpartition("/")[2]
    purl = PackageURL(type="generic", name=name, version=submodule.commit)
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=submodule.commit,
        purl=purl,
        bom_ref=f"vendored:{submodule.path}",
        scope=ComponentScope.REQUIRED,
        properties=[Property(name="forkwheel:submodule", value=submodule.path)],
    )


def _requirement(requirement: LockedRequirement) -> Component:
    """Describe a build requirement: used, but not delivered, which the standard's `excluded` means."""
    purl = _purl(requirement.name, requirement.version)
    marker = [Property(name="forkwheel:marker", value=requirement.marker)] if requirement.marker else []
    return Component(
        type=ComponentType.LIBRARY,
        name=requirement.name,
        version=requirement.version,
        purl=purl,
        bom_ref=f"build:{purl.to_string()}",
        scope=ComponentScope.EXCLUDED,
        external_references=[
            _file(filename, sha256, kind=ExternalReferenceType.DISTRIBUTION) for filename, sha256 in requirement.files
        ],
        properties=[Property(name="forkwheel:role", value="build requirement"), *marker],
    )


_URL_SAFE = ":/@+?&=~%[]"
