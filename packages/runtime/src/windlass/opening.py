"""A runtime that is being opened: `await` it, or enter it with `async with`."""

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Generic, TypeVar, cast

from windlass.runtime import CoreRuntime

RuntimeT = TypeVar("RuntimeT", bound=CoreRuntime)


class Opening(Coroutine[object, object, RuntimeT], Generic[RuntimeT]):
    """The coroutine of an `open`, which can be entered without being awaited first."""

    def __init__(self, work: Coroutine[object, object, RuntimeT]) -> None:
        self._work = work
        self._runtime: RuntimeT | None = None

    def __await__(self) -> Generator[object, object, RuntimeT]:
        return self._work.__await__()

    def send(self, value: object, /) -> object:
        """Go on, as a coroutine does."""
        return self._work.send(value)

    def throw(self, *error: object) -> object:
        """Raise an exception where the work is, as a coroutine does."""
        return cast(Callable[..., object], self._work.throw)(*error)

    def close(self) -> None:
        """Give it up, as a coroutine does."""
        self._work.close()

    async def __aenter__(self) -> RuntimeT:
        self._runtime = await self._work
        return await self._runtime.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runtime is not None, "only what was entered is left"
        await self._runtime.__aexit__(kind, error, trace)
