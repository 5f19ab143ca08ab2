"""Patch series: parsing, checking, applying and editing."""
