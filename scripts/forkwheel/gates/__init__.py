"""Find every condition of a source tree whose outcome differs between GPU architectures."""
