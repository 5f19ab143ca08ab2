"""What names of a Python source mean: functions, classes, modules and what lies outside the trees."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from forkwheel.gates.modules import Module

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass
class Scope:
    """The names that an expression sees: a function's own, then those around it."""

    module: Module
    names: dict[str, Any]
    outer: Scope | None = None
    owner: ClassRef | None = None
    key: str = ""  # module:qualified name of the function
    depth: int = 0  # calls that led here
    eager: bool = False  # evaluate every assignment, because a constant was passed in


@dataclass(frozen=True)
class ClassRef:
    """A class of the trees."""

    module: Module = field(compare=False)
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """The class's name."""
        return self.node.name


@dataclass(frozen=True)
class FunctionRef:
    """A function or method of the trees, with the scope around it where it is nested."""

    module: Module = field(compare=False)
    node: Function
    key: str
    owner: ClassRef | None = field(default=None, compare=False)
    outer: Scope | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The function's module and qualified name."""
        return self.key

    def decorators(self) -> list[str]:
        """Name the decorators, without their arguments."""
        names = []
        for decorator in getattr(self.node, "decorator_list", []):
            head = decorator.func if isinstance(decorator, ast.Call) else decorator
            names.append(head.attr if isinstance(head, ast.Attribute) else getattr(head, "id", ""))
        return names


@dataclass(frozen=True)
class Instance:
    """Some object of a class of the trees."""

    cls: ClassRef

    @property
    def name(self) -> str:
        """The class's name."""
        return self.cls.name


@dataclass(frozen=True)
class EnumMember:
    """A member of an enumeration of the trees."""

    cls: ClassRef
    name: str
    value: Any = field(compare=False)


@dataclass(frozen=True)
class Bound:
    """A method together with what it is called on."""

    function: FunctionRef
    receiver: Any

    @property
    def name(self) -> str:
        """The method's module and qualified name."""
        return self.function.key


@dataclass(frozen=True)
class Partial:
    """A callable with some arguments given already."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]

    name = "partial"


@dataclass(frozen=True)
class ModuleRef:
    """A module of the trees."""

    module: Module

    @property
    def name(self) -> str:
        """The module's dotted name."""
        return self.module.name


@dataclass(frozen=True)
class External:
    """A name that lies outside the trees, such as ``torch.cuda.is_available``."""

    name: str

    opaque = True


@dataclass(frozen=True)
class DeviceProperties:
    """What ``torch.cuda.get_device_properties`` returns for one architecture."""

    major: int
    minor: int

    name = "device properties"


@dataclass(frozen=True)
class Identity:
    """A callable that returns its first argument, such as ``functools.lru_cache(...)``."""

    name = "decorator"
