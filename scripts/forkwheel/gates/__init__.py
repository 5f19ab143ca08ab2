"""Finding the conditions that keep a GPU out."""
