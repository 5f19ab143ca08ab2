"""Evaluate a package's own specification of its modules: a script for the build root.

Its one argument is a JSON document; it prints another, of the ninja files that were
written. It runs with the locked packages and the tree alone and imports nothing of
forkwheel. What the specification imports but does not need here has stand-ins: modules
whose every attribute exists, and which cannot be called.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import sys
import sysconfig
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class StandIn(types.ModuleType):
    """A module of which everything can be imported and nothing used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        child = StandIn(f"{self.__name__}.{name}")
        setattr(self, name, child)
        return child

    def __mro_entries__(self, _: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __call__(self, *_: object, **__: object) -> None:
        """Refuse: what is called here is needed for real."""
        raise TypeError(f"{self.__name__} is a stand-in, which can't be called: the specification needs the real one")


class StandInFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for the submodules of stand-ins."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Claim every module below one of the names."""
        if fullname.partition(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the attribute of that name, so that its values are those that were set."""
        parent, _, name = spec.name.rpartition(".")
        module = getattr(sys.modules[parent], name) if parent else StandIn(spec.name)
        return module if isinstance(module, types.ModuleType) else StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave it as it is."""


def stand_in(names: list[str], values: dict[str, Any]) -> None:
    """Put stand-ins in place of modules, with the values that are read from them."""
    sys.meta_path.insert(0, StandInFinder(names))
    for name in names:
        sys.modules.pop(name, None)
        importlib.import_module(name)
    for dotted, value in values.items():
        module, *path, last = dotted.split(".")
        place: Any = sys.modules[module]
        for name in path:
            place = getattr(place, name)
        setattr(place, last, value)


def import_bare(package: str, tree: str) -> None:
    """Make a package importable without running its ``__init__``, which imports all of its parts."""
    module = types.ModuleType(package)
    module.__path__ = [str(Path(tree, *package.split(".")))]
    sys.modules[package] = module


def main(argument: str) -> None:
    """Call each module's generator and write its ninja file."""
    request = json.loads(argument)
    sys.path[:0] = [request["packages"], request["tree"]]
    for name in request["first"]:
        importlib.import_module(name)
    stand_in(request["stand_ins"], request["values"])
    import_bare(request["package"], request["tree"])
    modules = {}
    for name, generator in request["modules"].items():
        module, function = generator.split(":")
        specification = getattr(importlib.import_module(module), function)()
        specification.write_ninja()
        modules[name] = {"name": specification.name, "ninja": str(specification.ninja_path)}
    document = {"modules": modules, "python_include": sysconfig.get_path("include")}
    sys.stdout.write(f"\n{json.dumps(document)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
