"""A durable runtime for AI agents: journal first, act second, show third."""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass.errors import AgentError as AgentError
    from windlass.errors import Ambiguous as Ambiguous
    from windlass.errors import Conflict as Conflict
    from windlass.errors import Corrupt as Corrupt
    from windlass.errors import Denied as Denied
    from windlass.errors import Rejected as Rejected
    from windlass.errors import Unavailable as Unavailable

__version__ = "0.1.0"

_ERRORS = ("AgentError", "Ambiguous", "Conflict", "Corrupt", "Denied", "Rejected", "Unavailable")

__getattr__, __dir__ = _lazy_names(__name__, dict.fromkeys(_ERRORS, "errors"))
