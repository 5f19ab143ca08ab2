"""The keys that each table of a recipe may have, and what they mean, for the hints of errors."""

from __future__ import annotations

TOP = {
    "recipe": "a table [recipe] with the recipe's name, local and revision",
    "package": "a table [[package]] for each project that is built",
}

RECIPE = {
    "format": "the number of the recipe's format",
    "name": "the recipe's name, as commands take it",
    "local": 'the word after the + in the versions that are built: "demo" makes 1.0+demo.1',
    "revision": "the number of the revision that is built: 1 to begin with; `lock` counts it up",
    "target": 'the GPU architecture that is built for, such as "sm_120a", or "any"',
    "summary": "one line that says what the recipe is for",
}

PACKAGE = {
    "name": "the project's name on the package index",
    "version": "upstream's version of the project, without a local part",
    "epoch": "the time that the build's records carry, in seconds since 1970: the date of the pinned commit",
    "source": "a table [[package.source]] for each place that the project can be had from",
    "series": "the folder of the patch series, relative to the recipe",
    "include": "patterns of the files that are kept of the source; all, where it is missing",
    "exclude": "patterns of the files that are left out of the source",
    "executable": "patterns of the files that are executable",
    "generated": "a table [[package.generated]] for each file that forkwheel writes",
    "substitute": "a table [[package.substitute]] for each text that is replaced",
    "manifest_file": "the file that lists the tree's files",
    "version_file": "the file that states the version",
    "requires": "requirements on the recipe's own packages, whose version is rewritten",
    "required_versions": "the version of each of `requires`, where the recipe does not build it",
    "must_contain": "files that the wheel must hold",
    "not_shipped": "patterns of patched files that the wheel need not hold",
    "environment": "variables of the build's environment",
    "config_settings": "settings of the build backend",
    "jit_cache": "a table [package.jit_cache] that says where the package keeps what it compiles",
}

GENERATED = {
    "path": "the file's path in the tree",
    "text": "the file's content, in which {version} is replaced; it may be empty",
}

SUBSTITUTE = {
    "path": "the path of the file in the tree",
    "text": "the text that stands exactly once in the file",
    "replacement": "what it becomes, in which {version} is replaced; empty to delete it",
}

JIT_CACHE = {
    "variable": "the environment variable that names the folder in place of HOME",
    "path": "the cache's path below that folder",
    "clear": "patterns of what is removed below a version's folder",
    "locks": "patterns of the lock files that a compilation holds",
    "distributions": "distributions that are loaded in preference to the cache",
    "prebuilt": "patterns, in site-packages, of what is loaded in preference to the cache",
}

GIT_SOURCE = {
    "kind": "what the source is: git, sdist or wheel",
    "url": "the repository's URL",
    "commit": "the full commit, 40 hexadecimal digits",
    "tag": "the tag that names the commit",
    "subdirectory": "the folder of the repository that holds the project",
    "submodule": "a table [[package.source.submodule]] for each submodule that is needed",
}

SUBMODULE = {
    "path": "the submodule's path in the repository",
    "commit": "the full commit that it is pinned to, 40 hexadecimal digits",
}

FILE_SOURCE = {
    "kind": GIT_SOURCE["kind"],
    "filename": "the file's name on the package index",
    "sha256": "the file's SHA-256, 64 hexadecimal digits",
}
