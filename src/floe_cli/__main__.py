"""``python -m floe_cli`` is ``floe``."""

import sys

from floe_cli.app import main

sys.exit(main())
