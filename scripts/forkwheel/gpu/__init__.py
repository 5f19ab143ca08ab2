"""Run and judge what was built on the GPUs at hand."""
