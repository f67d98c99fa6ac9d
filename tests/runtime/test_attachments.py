"""Images and files of messages: their bytes are in the content store, and reach the model whole."""

import re
from base64 import b64decode, b64encode
from binascii import a2b_base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, Rejected
from windlass.adapters.journals.memory import MemoryStore
from windlass.agent import attachments
from windlass.agent.attachments import Inline, Unreadable, data_url, read_place
from windlass.agent.policy import allow_start
from windlass.errors import Unavailable
from windlass.feed import Feed
from windlass.limits import INLINE_PART_CHARS_MAX
from windlass.playground import Playground
from windlass.ports.machine import Machine
from windlass.testing import (
    FakeClock,
    ScriptedModel,
    call,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass.testing.stores import WrappedStore
from windlass.tools import tool
from windlass_protocol import (
    ContentRef,
    ErrorKind,
    FilePart,
    ImagePart,
    JsonObject,
    RetryClass,
    TextPart,
    UserMessage,
)

PICTURE = bytes(range(256)) * (INLINE_PART_CHARS_MAX // 256)
PICTURE_URL = data_url("image/png", PICTURE)
IMAGE = ImagePart(image=PICTURE_URL, media_type="image/png")


def echoing() -> tuple[ScriptedModel, Agent]:
    model = ScriptedModel(lambda _: say("seen"))
    return model, Agent("a", model=model)


def addresses(model: ScriptedModel, request: int = -1) -> list[str]:
    """Return the images and files that the model was sent."""
    parts = [part for message in model.requests[request].messages for part in message.parts]
    return [str(part.get("image", part.get("data"))) for part in parts if part["type"] != "text"]


def test_a_large_image_is_a_reference_in_the_journal_and_whole_for_the_model(tmp_path: Path) -> None:
    model, agent = echoing()

    async def story() -> None:
        path = tmp_path / "s.db"
        async with AgentRuntime.open(path, agents=[agent], durability="process") as runtime:
            text = TextPart(text="What is this?")
            handle = await runtime.start_run(agent, (text, IMAGE), session_id="s1")
            await handle.wait()
            [event] = [event async for event in handle.events() if event.type == "message.received"]
            assert len(str(event.data)) < 1_000
            [ref] = await runtime.core.store.contents_of("s1")
            assert (ref.media_type, ref.size_bytes) == ("image/png", len(PICTURE))
            assert ref.hash in str(event.data)
        # Another process reads it from the store.
        async with AgentRuntime.open(path, agents=[agent], durability="process") as runtime:
            await (await runtime.start_run(agent, "And now?", session_id="s1")).wait()

    play(story())
    assert [addresses(model, at) for at in (0, 1)] == [[PICTURE_URL]] * 2
    assert "content" not in str(model.requests[0].messages[0].parts)


def test_a_message_to_a_run_may_have_a_large_image() -> None:
    @tool(mode="read", approval="always")
    async def look() -> str:
        """Look."""
        return "nothing"

    model = ScriptedModel([call("look", {}), say("seen")])
    agent = Agent("a", model=model, tools=[look])

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Go.", session_id="s1")
            async for event in handle.events():
                if event.type == "run.waiting":
                    break
            await runtime.steer(agent, (IMAGE,), session_id="s1")
            # The message withdraws the request, and the model sees it at its next step.
            await handle.wait()
            assert len(await runtime.core.store.contents_of("s1")) == 1

    play(story())
    assert addresses(model) == [PICTURE_URL]


@pytest.mark.parametrize(
    "part",
    [
        ImagePart(image=data_url("image/png", PICTURE[:30_000]), media_type="image/png"),
        FilePart(data="data:text/plain," + "a word " * 20_000, media_type="text/plain"),
        FilePart(data="https://a.example/" + "a" * INLINE_PART_CHARS_MAX, media_type="text/plain"),
    ],
    ids=["small", "not base64", "an address"],
)
def test_other_images_and_files_stay_in_the_message(part: ImagePart | FilePart) -> None:
    model, agent = echoing()

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await (await runtime.start_run(agent, (part,), session_id="s1")).wait()
            assert await runtime.core.store.contents_of("s1") == ()

    play(story())
    assert addresses(model) == [part.image if isinstance(part, ImagePart) else part.data]


def test_a_file_with_a_registered_secret_is_not_stored() -> None:
    secret = "correct horse battery staple"
    raw = PICTURE + secret.encode()
    model, agent = echoing()

    async def story() -> None:
        async with AgentRuntime.in_memory([agent], secrets=[secret]) as runtime:
            part = FilePart(data=data_url("text/plain", raw), media_type="text/plain")
            await (await runtime.start_run(agent, (part,), session_id="s1")).wait()
            assert await runtime.core.store.contents_of("s1") == ()

    play(story())
    [address] = addresses(model)
    assert "[redacted]" in address
    assert secret.encode() not in b64decode(re.sub(r"\[redacted\].*", "", address).partition(",")[2] + "==")


def test_the_content_of_another_session_is_not_given_to_the_model() -> None:
    model, agent = echoing()

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await (await runtime.start_run(agent, (IMAGE,), session_id="s1")).wait()
            [ref] = await runtime.core.store.contents_of("s1")
            foreign = ImagePart(image=ref.content_id, media_type="image/png")
            await (await runtime.start_run(agent, (foreign,), session_id="s2")).wait()
            assert addresses(model) == [ref.content_id]
            with pytest.raises(Rejected, match=r"message\.0 is not valid: only the runtime sets its content"):
                await runtime.start_run(agent, (foreign.model_copy(update={"content": ref}),))

    play(story())


def test_sizes_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "ATTACHMENT_BYTES_MAX", len(PICTURE))
    monkeypatch.setattr(attachments, "ATTACHMENTS_CHARS_MAX", 2 * len(PICTURE_URL))
    _, agent = echoing()

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await runtime.start_run(agent, (IMAGE, IMAGE))
            with pytest.raises(Rejected, match=r"it has 65,537 bytes, limit 65,536; send its address"):
                await runtime.start_run(agent, (ImagePart(image=data_url("image/png", PICTURE + b"x")),))
            most = 2 * len(PICTURE_URL)
            with pytest.raises(Rejected, match=f"{most + 9:,} characters, limit {most:,}; send fewer"):
                await runtime.start_run(agent, (IMAGE, IMAGE, ImagePart(image="https://a")))

    play(story())


def test_an_image_that_is_not_stored_any_more_is_left_as_a_reference(tmp_path: Path) -> None:
    model, agent = echoing()

    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "s.db", agents=[agent], durability="process") as runtime:
            await (await runtime.start_run(agent, (IMAGE,), session_id="s1")).wait()
            [ref] = await runtime.core.store.contents_of("s1")
            fork = await runtime.sessions.fork("s1")
            await runtime.sessions.delete("s1")
            await (await runtime.start_run(agent, "And?", session_id=fork.session_id)).wait()
            # The copy uses it, so it was not deleted.
            assert addresses(model) == [PICTURE_URL]
            assert [used.hash for used in await runtime.core.store.contents_of(fork.session_id)] == [ref.hash]

    play(story())


class Away(WrappedStore):
    """A store that reads no contents for a number of times."""

    def __init__(self, times: int) -> None:
        super().__init__(MemoryStore())
        self.times = times

    async def get(self, ref: ContentRef) -> bytes:
        if ref.media_type == "image/png" and self.times:
            self.times -= 1
            raise Unavailable("gone", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)
        return await super().get(ref)


@pytest.mark.parametrize("times", [1, 15])
def test_an_image_that_cannot_be_read_now_is_read_later(times: int) -> None:
    model, agent = echoing()
    store, clock = Away(times), FakeClock()
    machine = Machine(clock, sequential_ids(), seeded_random(1))

    async def story() -> None:
        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, clock)).content(store)
        async with builder.agent(agent).policy(allow_start).options(machine=machine).build() as runtime:
            assert (await (await runtime.start_run(agent, (IMAGE,))).wait()).status == "completed"

    run_in_fake_time(story(), clock=clock)
    assert addresses(model) == [PICTURE_URL]
    assert not store.times


PIECE = 6


@given(
    raw=st.binary(max_size=40), cut=st.integers(0, 60), tail=st.sampled_from(["", "=", "A", "==", "é", "\n"])
)
def test_base64_is_read_and_written_in_pieces(raw: bytes, cut: int, tail: str) -> None:
    before = attachments._PIECE_BYTES  # pyright: ignore[reportPrivateUsage]
    text = b64encode(raw).decode()
    broken = text[:cut] + tail + text[cut:]
    try:
        attachments._PIECE_BYTES = PIECE  # pyright: ignore[reportPrivateUsage]
        assert data_url("x/y", raw) == f"data:x/y;base64,{text}"
        assert read_place(f"data:x/y;base64,{text}") == Inline("x/y", raw)
        outcome = read_place(f"data:x/y;base64,{broken}")
    finally:
        attachments._PIECE_BYTES = before  # pyright: ignore[reportPrivateUsage]
    if len(broken) % 4:
        return  # what is too long by some padding is read in one piece alone
    try:
        expected = Inline("x/y", a2b_base64(broken, strict_mode=True))
    except ValueError:
        expected = Unreadable("its data URL is not valid base64")
    assert outcome == expected


def test_a_playground_run_keeps_the_images_of_its_step_and_takes_no_others() -> None:
    model, agent = echoing()

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, (IMAGE,), session_id="s1")
            await handle.wait()
            again = await Playground(runtime).run(handle.run_id, 0)
            await again.wait()
            assert addresses(model) == [PICTURE_URL]
            [ref] = await runtime.core.store.contents_of("s1")
            other: JsonObject = {
                "type": "image",
                "image": ref.content_id,
                "content": {**ref.model_dump(mode="json", by_alias=True), "hash": "sha256:" + "0" * 64},
            }
            message = UserMessage(content=(ImagePart.model_validate(other),))
            with pytest.raises(Rejected, match="has a content that the step did not have"):
                await Playground(runtime).run(handle.run_id, 0, messages=[message])

    play(story())
