"""Run ``floe`` with ``python -m floe_cli``."""

import sys

from floe_cli.app import main

sys.exit(main())
