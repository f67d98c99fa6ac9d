"""Table of the rules of single programs, by program name."""

from windlass_harness.shell.commands import Rule
from windlass_harness.shell.rules_builtin import BUILTINS
from windlass_harness.shell.rules_git import git
from windlass_harness.shell.rules_net import NETWORK
from windlass_harness.shell.rules_run import RUNNERS
from windlass_harness.shell.rules_tools import TOOLS

RULES: dict[str, Rule] = {**RUNNERS, **TOOLS, **NETWORK, **BUILTINS, "git": git}
