"""python -m tests.sim --seed N · --count N --jobs N · --mutations"""

import sys

from tests.sim.runner import main

sys.exit(main(sys.argv[1:]))
