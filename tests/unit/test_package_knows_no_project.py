"""What is particular to an upstream project is in recipes and patches, never in the package."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_no_module_names_a_project_of_a_recipe() -> None:
    recipes = [file.read_text() for file in (REPOSITORY / "recipes").glob("*/recipe.toml")]
    names = {
        name.split("-")[0] for text in recipes for name in re.findall(r'(?m)^\[\[package\]\]\nname = "(.+)"', text)
    }
    assert {"flashinfer", "sglang"} <= names
    modules = list((REPOSITORY / "scripts" / "forkwheel").rglob("*.py"))
    naming = [str(file) for file in modules for name in names if name in file.read_text().lower()]
    assert len(modules) > 100
    assert naming == []
