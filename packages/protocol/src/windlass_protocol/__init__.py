"""Wire types of Windlass, and the strict codec that reads and writes them.

The types are generated from JSON Schema; each module is imported on first access to one of its names.
"""

from typing import TYPE_CHECKING

from windlass_protocol.generated import MODULE_OF as _MODULE_OF
from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass_protocol.codec import CodecError as CodecError
    from windlass_protocol.codec import CodecErrorCode as CodecErrorCode
    from windlass_protocol.codec import CodecLimits as CodecLimits
    from windlass_protocol.codec import JsonObject as JsonObject
    from windlass_protocol.codec import JsonValue as JsonValue
    from windlass_protocol.codec import canonical as canonical
    from windlass_protocol.codec import decode as decode
    from windlass_protocol.codec import decode_trusted as decode_trusted
    from windlass_protocol.codec import encode as encode
    from windlass_protocol.codec import encode_trusted as encode_trusted
    from windlass_protocol.codec import parse as parse
    from windlass_protocol.codec import typed_data as typed_data
    from windlass_protocol.generated import *

__version__ = "0.1.0"

_HOMES = {
    **{
        f"windlass_protocol.generated.{module}": tuple(
            name for name, home in _MODULE_OF.items() if home == module
        )
        for module in dict.fromkeys(_MODULE_OF.values())
    },
    # Last: JsonObject is a name of the codec, and of a generated module.
    "windlass_protocol.codec": (
        "CodecError",
        "CodecErrorCode",
        "CodecLimits",
        "JsonObject",
        "JsonValue",
        "canonical",
        "decode",
        "decode_trusted",
        "encode",
        "encode_trusted",
        "parse",
        "typed_data",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)
