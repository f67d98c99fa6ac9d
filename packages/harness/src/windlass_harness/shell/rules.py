"""Every rule that belongs to one program, by the program's name."""

from windlass_harness.shell.commands import Rule
from windlass_harness.shell.rules_builtin import BUILTINS
from windlass_harness.shell.rules_git import git
from windlass_harness.shell.rules_net import NETWORK
from windlass_harness.shell.rules_run import RUNNERS
from windlass_harness.shell.rules_tools import TOOLS

RULES: dict[str, Rule] = {**RUNNERS, **TOOLS, **NETWORK, **BUILTINS, "git": git}
