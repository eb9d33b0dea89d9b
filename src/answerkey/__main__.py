"""`python -m answerkey`: the same as the command `answerkey`."""

import sys

from answerkey.cli import main

if __name__ == "__main__":
    sys.exit(main())
