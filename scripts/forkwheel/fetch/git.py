"""Git sources: fetch pinned commits into the cache, and write out their files.

The cache holds one bare repository for each pinned commit, named after it and made
whole before it gets its name.
"""

from __future__ import annotations

import posixpath
from pathlib import Path
from urllib.parse import urlsplit

from forkwheel.errors import FetchError, PinMismatchError
from forkwheel.fetch.context import FetchContext, Fetched, observed
from forkwheel.fetch.git_errors import explain, is_refused_want
from forkwheel.fetch.git_export import Checkout, export
from forkwheel.fetch.git_objects import GITLINK, DamagedRepositoryError, Objects, open_objects
from forkwheel.fetch.git_process import check_git, remote_environment, run_git
from forkwheel.fetch.masking import mask
from forkwheel.fetch.mirrors import apply_mirrors, is_local
from forkwheel.recipe import GitSource, Submodule
from forkwheel.store import Store, remove_tree


def is_cached(source: GitSource, store: Store) -> bool:
    """Tell whether everything that a source needs is in the cache."""
    commits = [source.commit, *(submodule.commit for submodule in source.submodules)]
    return all(repository_of(commit, store).is_dir() for commit in commits)


def repository_of(commit: str, store: Store) -> Path:
    """Return where the cache keeps, or would keep, the repository of a commit."""
    return store.root / "git" / f"{commit}.git"


def fetch_git(source: GitSource, dest: Path, *, context: FetchContext) -> Fetched:
    """Fetch what the cache lacks, verify it, and write the source's files to ``dest``/tree.

    A damaged repository in the cache is fetched once more, unless ``offline``.
    """
    check_git()
    try:
        return _fetch(source, dest, context)
    except DamagedRepositoryError as error:
        if context.offline:
            raise
        context.log.warning(f"{error.message}; fetching it again")
        for commit in (source.commit, *(submodule.commit for submodule in source.submodules)):
            with context.store.lock(f"git-{commit}"):
                if repository_of(commit, context.store).is_dir():
                    remove_tree(repository_of(commit, context.store))
        return _fetch(source, dest, context)


def _fetch(source: GitSource, dest: Path, context: FetchContext) -> Fetched:
    origins = [_cache_commit(source.url, source.commit, source.tag, context)]
    repositories = {"": repository_of(source.commit, context.store)}
    urls = {"": source.url}
    for submodule in sorted(source.submodules, key=lambda each: each.path.count("/")):
        owner = _owner(submodule.path, repositories)
        urls[submodule.path] = url = _submodule_url(submodule, owner, source, urls[owner], repositories[owner], context)
        repositories[submodule.path] = repository_of(submodule.commit, context.store)
        origins.append(_cache_commit(url, submodule.commit, None, context))
    root = export(Checkout(source, repositories), dest)
    served_by = ", ".join(dict.fromkeys(origin for origin in origins if origin))
    return Fetched(root, source, observed(source, served_by=served_by))


def _cache_commit(url: str, commit: str, tag: str | None, context: FetchContext) -> str:
    """Put a commit into the cache; return the remote that served it, or nothing if it was there."""
    target = repository_of(commit, context.store)
    if target.is_dir():
        return ""
    if context.offline:
        message = f"{mask(url)}@{commit} is not in the cache"
        raise FetchError(message, hint="run once without --offline")

    def waiting() -> None:
        context.log.info(f"another run fetches {commit[:12]}; waiting for it")

    with context.store.lock(f"git-{commit}", waiting=waiting), context.store.temporary() as folder:
        if target.is_dir():
            return ""
        remote = apply_mirrors(url, context.mirrors)
        context.log.info(f"fetching {commit[:12]} from {mask(remote)}")
        made = folder / "repository"
        _Remote(remote, made, context).fetch(commit, tag)
        context.store.publish(made, target)
    return mask(remote)


class _Remote:
    """A remote, and the empty repository that it is fetched into."""

    def __init__(self, url: str, repository: Path, context: FetchContext) -> None:
        self._shown = url
        self._repository = repository
        self._context = context
        self._url, self._environment = remote_environment(url, context)
        self._local = is_local(url)

    def fetch(self, commit: str, tag: str | None) -> None:
        """Fetch a commit: by its name, by the tag's, or with everything, as the server allows."""
        create = ["init", "--quiet", "--bare", "--template=", "--object-format=sha1", str(self._repository)]
        created = run_git(create, repository=None, context=self._context)
        if created.status:
            raise FetchError(f"git init failed: {mask(created.errors.strip())}", hint="check git and the cache folder")
        attempts = [[commit]]
        if tag is not None:
            attempts.append([f"+refs/tags/{tag}:refs/tags/{tag}"])
        errors = ""
        for wanted in attempts:
            errors = self._attempt("--depth=1", wanted)
            if self._has(commit):
                return
        shallow = (self._repository / "shallow").exists()
        errors = self._attempt(
            "--unshallow" if shallow else "--force", ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
        )
        if self._has(commit):
            return
        if errors:
            raise explain(errors, self._shown)
        self._fail(commit, tag)

    def _attempt(self, option: str, wanted: list[str]) -> str:
        """Fetch; return git's complaint where the server only refuses this way of asking."""
        fetch = ["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"]
        fetch += ["--no-auto-maintenance", option]
        if self._local:
            fetch.append("--upload-pack=git -c safe.directory=* upload-pack")
        result = run_git(
            [*fetch, "--", self._url, *wanted],
            repository=self._repository,
            context=self._context,
            remote=self._shown,
            environment=self._environment,
        )
        if result.status and not is_refused_want(result.errors):
            raise explain(result.errors, self._shown)
        return result.errors if result.status else ""

    def _has(self, commit: str) -> bool:
        return self._resolve(commit) == commit

    def _resolve(self, name: str) -> str:
        command = ["rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}"]
        result = run_git(command, repository=self._repository, context=self._context)
        return result.output.decode().strip()

    def _fail(self, commit: str, tag: str | None) -> None:
        found = self._resolve(f"refs/tags/{tag}") if tag else ""
        told = f"; its tag {tag} is {found}" if found else ""
        raise PinMismatchError(
            f"{mask(self._shown)} has no commit {commit}{told}",
            hint="check the commit that the recipe pins, and the url",
        )


def _owner(path: str, repositories: dict[str, Path]) -> str:
    above = [known for known in repositories if known and path.startswith(f"{known}/")]
    return max(above, key=len, default="")


def _submodule_url(
    submodule: Submodule, owner: str, source: GitSource, owner_url: str, repository: Path, context: FetchContext
) -> str:
    """Check a submodule's pin against the tree that holds it; return its URL from .gitmodules."""
    path = submodule.path.removeprefix(f"{owner}/") if owner else submodule.path
    commits = {each.path: each.commit for each in source.submodules}
    with open_objects(repository) as objects:
        tree = objects.tree_of(commits.get(owner, source.commit))
        entry = objects.find(tree, path)
        if entry is None or entry.mode != GITLINK:
            message = f"{mask(source.url)} has no submodule {submodule.path!r} at {source.commit}"
            raise PinMismatchError(message, hint="remove it from the recipe, or correct its path")
        if entry.object_id != submodule.commit:
            message = f"submodule {submodule.path!r}: the recipe pins {submodule.commit}, the commit {entry.object_id}"
            raise PinMismatchError(message, hint="pin the submodule at the SHA that the commit names")
        listed = _listed_urls(objects, tree, repository, context)
    if path not in listed:
        message = f"{mask(source.url)}: .gitmodules has no URL for {submodule.path!r}"
        raise FetchError(message, hint="check the commit that the recipe pins")
    return _resolve_url(listed[path], owner_url, submodule.path)


def _listed_urls(objects: Objects, tree: str, repository: Path, context: FetchContext) -> dict[str, str]:
    """Read .gitmodules: the URL of each submodule by its path."""
    entry = objects.find(tree, ".gitmodules")
    if entry is None or entry.mode not in ("100644", "100755"):
        return {}
    command = ["config", "--no-includes", "--blob", entry.object_id, "--list", "-z"]
    listed = run_git(command, repository=repository, context=context).output.decode("utf-8", "surrogateescape")
    values: dict[str, str] = dict(line.partition("\n")[::2] for line in listed.split("\0"))
    named = {key.removesuffix(".path"): path for key, path in values.items() if key.endswith(".path")}
    return {path: values[f"{name}.url"] for name, path in named.items() if f"{name}.url" in values}


def _resolve_url(url: str, owner_url: str, path: str) -> str:
    if url.startswith(("./", "../")):
        parts = urlsplit(owner_url) if "://" in owner_url else None
        if parts is not None:
            return parts._replace(path=posixpath.normpath(posixpath.join(parts.path, url))).geturl()
        host, colon, folder = owner_url.rpartition(":")
        return f"{host}{colon}{posixpath.normpath(posixpath.join(folder, url))}"
    if url.startswith("-") or "::" in url.split("/")[0] or (is_local(url) and not is_local(owner_url)):
        message = f"submodule {path!r} has the URL {mask(url)!r}, which a remote repository must not name"
        raise FetchError(message, hint="check the commit that the recipe pins")
    return url
