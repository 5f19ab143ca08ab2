"""Following upstream: how a series stands against other revisions, and moving it there."""
