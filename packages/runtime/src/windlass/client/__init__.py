"""A client of Windlass servers: `async with Client("http://localhost:8700", key=…) as client`.

HTTP is the extra `windlass[client]`; it is imported when the first client is opened.
"""

from windlass.client.answers import Accepted as Accepted
from windlass.client.answers import AgentInfo as AgentInfo
from windlass.client.answers import ApprovalInfo as ApprovalInfo
from windlass.client.answers import Health as Health
from windlass.client.answers import RunInfo as RunInfo
from windlass.client.answers import RunRow as RunRow
from windlass.client.answers import SessionInfo as SessionInfo
from windlass.client.answers import TraceInfo as TraceInfo
from windlass.client.client import Client as Client
from windlass.client.errors import Broken as Broken
from windlass.client.errors import NotFound as NotFound
from windlass.client.errors import NotWindlass as NotWindlass
from windlass.client.errors import RateLimited as RateLimited
from windlass.client.errors import Unauthenticated as Unauthenticated
from windlass.client.errors import Unreachable as Unreachable
from windlass.client.means import Means as Means
from windlass.client.remote import RemoteAgent as RemoteAgent
from windlass.client.remote import RemoteOptions as RemoteOptions
from windlass.client.runs import RunQuery as RunQuery
from windlass.client.sessions import RunWishes as RunWishes
from windlass.client.sessions import SessionQuery as SessionQuery
from windlass.ports.feed import CursorExpired as CursorExpired
