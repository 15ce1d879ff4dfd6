"""``python -m giantstep`` is the command ``giantstep``."""

from giantstep.faces.cli import main

if __name__ == "__main__":
    main()
