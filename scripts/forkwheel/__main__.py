"""Run ``python -m forkwheel``."""

from forkwheel.cli import main

if __name__ == "__main__":
    main()
