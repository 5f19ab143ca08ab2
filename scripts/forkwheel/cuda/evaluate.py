"""Evaluate a package's own specification of its modules: a script for the build root.

Its one argument is a JSON document; it prints another, of the ninja files that were
written. It runs with the locked packages and the tree alone and imports nothing of
forkwheel. What the specification imports but does not need here has stand-ins: modules
whose every attribute exists, and which cannot be called.
"""

from __future__ import annotations

import importlib
import json
import sys
import sysconfig
import types
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

    def __call__(self, *_: object, **__: object) -> None:
        """Refuse: what is called here is needed for real."""
        raise TypeError(f"{self.__name__} is a stand-in, which can't be called: the specification needs the real one")


def stand_in(names: list[str], values: dict[str, Any]) -> None:
    """Put stand-ins in place of modules, with the values that are read from them."""
    for name in names:
        sys.modules[name] = StandIn(name)
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
