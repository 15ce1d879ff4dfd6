"""``python -m giantstep.cli`` is the command ``giantstep``."""

from giantstep.cli import main

if __name__ == "__main__":
    main()
