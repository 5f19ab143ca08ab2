"""Fetching pinned sources: git, sdist and wheel."""
