"""Building wheels, and packing them the same everywhere."""
