"""What needs no credentials: rendered once, and limited by the address of the client."""

import asyncio
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.server.keyring import Keyring
from tests.server.rig import FAST, Json, http_client, run, serving, talker

from windlass.webhooks import Webhook
from windlass_server import Settings, Tenants, create_app

DOCUMENT = "/v1/openapi.json"
ACCEPTED = {
    "*": True,
    "br, *;q=0.5": True,
    "gzip;q=0": False,
    "gzip; q=0.000": False,
    "*, gzip;q=0": False,
    "*;q=0, gzip": True,
    "*;q=0": False,
    "gzip;q=0.001": True,
    "GZIP;Q=0, br": False,
    "br": False,
}
"""Whether `Accept-Encoding` allows gzip."""
FEW = replace(FAST, requests_burst=3, requests_per_s=0.001)


def test_the_document_is_rendered_once_for_all_clients(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, http_client(f"http://127.0.0.1:{server.port}") as client:
            document, renderings = server.app.openapi, list[None]()

            def openapi() -> Json:
                renderings.append(None)
                return document()

            server.app.openapi = openapi
            # Before there is one, and after: several wait for the first.
            for _ in range(2):
                answers = await asyncio.gather(*(client.get(DOCUMENT) for _ in range(8)))
                assert {answer.status_code for answer in answers} == {200}
                assert len(renderings) == 1

    run(main())


def test_a_client_that_has_the_document_gets_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, http_client(f"http://127.0.0.1:{server.port}") as client:
            plain = {"accept-encoding": "identity"}
            first = await client.get(DOCUMENT, headers=plain)
            app = create_app(Settings(), Tenants(tmp_path / "other", [talker()]))
            assert first.json() == json.loads(json.dumps(app.openapi()))
            assert first.headers["content-type"] == "application/json"
            packed = await client.get(DOCUMENT, headers={"accept-encoding": "gzip"})
            assert packed.headers["content-encoding"] == "gzip"
            assert packed.json() == first.json()
            assert int(packed.headers["content-length"]) == len(gzip.compress(first.content, 9, mtime=0))
            tag = first.headers["etag"]
            known = await client.get(DOCUMENT, headers={"if-none-match": f'"x", {tag}'})
            assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", tag)
            head = await client.head(DOCUMENT, headers=plain)
            assert (head.content, int(head.headers["content-length"])) == (b"", len(first.content))
            assert (await client.post(DOCUMENT)).status_code == 405
            for seen in ("*", tag.removeprefix("W/"), f'{tag.removeprefix("W/")},"x"'):
                known = await client.get(DOCUMENT, headers={"if-none-match": seen})
                assert (known.status_code, known.content) == (304, b"")
            for accepted, is_packed in ACCEPTED.items():
                answer = await client.get(DOCUMENT, headers={"accept-encoding": accepted})
                assert ("content-encoding" in answer.headers, accepted) == (is_packed, accepted)
                assert answer.json() == first.json()

    run(main())


def test_an_address_is_limited_in_what_it_asks_for_without_credentials(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann = {"authorization": f"Bearer {keys.add('ann', 'acme', 'ann')}"}
        settings = Settings(keys=keys.path, limits=FEW)
        async with (
            serving(tmp_path / "data", settings=settings) as server,
            http_client(f"http://127.0.0.1:{server.port}") as client,
        ):
            for path in (DOCUMENT, "/", "/assets/none.js"):
                assert (await client.get(path)).status_code != 429
            for path in (DOCUMENT, "/", "/none", "/v1/../none"):
                refused = await client.get(path)
                assert refused.status_code == 429
                assert int(refused.headers["retry-after"]) > 0
            for path in ("/v1/health", "/eve/v1/health"):
                for _ in range(5):
                    assert (await client.get(path)).status_code == 200
            assert (await client.get("/v1/agents", headers=ann)).status_code == 200
            # A proxy on this machine names the client.
            other = {"x-forwarded-for": "203.0.113.7"}
            assert (await client.get(DOCUMENT, headers=other)).status_code == 200

    run(main())


def test_a_flood_without_credentials_takes_nothing_from_tenants_and_other_addresses(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        tenants = [
            {"authorization": f"Bearer {keys.add(name, tenant, name)}"}
            for name, tenant in (("ann", "acme"), ("bob", "bolts"))
        ]
        settings = Settings(keys=keys.path, limits=FEW)
        async with (
            serving(tmp_path / "data", settings=settings) as server,
            http_client(f"http://127.0.0.1:{server.port}") as client,
        ):

            async def status(path: str, headers: Mapping[str, str]) -> int:
                return (await client.get(path, headers=headers)).status_code

            flood = [
                status(path, {}) for path in (DOCUMENT, "/", "/assets/none.js", "/none") for _ in range(25)
            ]
            # As many requests of each tenant as it may send at once, from the address of the flood.
            ours = [status("/v1/agents", headers) for headers in tenants for _ in range(FEW.requests_burst)]
            other = [status(DOCUMENT, {"x-forwarded-for": f"203.0.113.{number}"}) for number in range(5)]
            answers = await asyncio.gather(*flood[:50], *ours, *other, *flood[50:])
            flooded = answers[:50] + answers[-50:]
            assert len(flooded) - flooded.count(429) == FEW.requests_burst
            assert answers[50:-50] == [200] * (len(ours) + len(other))

    run(main())


def test_every_refused_request_to_a_webhook_counts_for_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB", "a-secret-of-the-hub")
    webhook = Webhook("issues", agent="talker", scheme="github", secrets=("HUB",), message="x")
    few = replace(FAST, failures_per_s=0.001, failures_burst=3)

    async def main() -> None:
        async with (
            serving(tmp_path, settings=Settings(limits=few), webhooks=[webhook]) as server,
            http_client(f"http://127.0.0.1:{server.port}") as client,
        ):
            refused = await client.get("/webhooks/issues")
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
            statuses = [(await client.get("/webhooks/issues")).status_code for _ in range(3)]
            assert statuses == [405, 405, 429]
            assert (await client.post("/webhooks/issues", content=b"{}")).status_code == 429

    run(main())


def test_addresses_of_one_network_and_names_that_a_client_wrote_itself_count_as_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, settings=Settings(limits=FEW)) as server,
            http_client(f"http://127.0.0.1:{server.port}") as client,
        ):

            async def statuses(*addresses: str) -> list[int]:
                headers = [{"x-forwarded-for": address} for address in addresses]
                return [(await client.get(DOCUMENT, headers=one)).status_code for one in headers]

            own_network = [f"2001:db8:0:1::{number:x}" for number in range(4)]
            assert await statuses(*own_network) == [200, 200, 200, 429]
            assert await statuses("2001:db8:0:2::1", "192.0.2.1") == [200, 200]
            # What a proxy adds stands last.
            written = [f"198.51.100.{number}, 203.0.113.7" for number in range(3)]
            assert await statuses(*written, "203.0.113.7") == [200, 200, 200, 429]
            mapped = ["192.0.2.9", "::ffff:192.0.2.9", "::ffff:c000:209", "192.0.2.9"]
            assert await statuses(*mapped) == [200, 200, 200, 429]
            assert await statuses("198.51.100.1", "unknown") == [200, 200]

    run(main())
