"""What needs no credentials: rendered once, and limited by the address of the client."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

from tests.server.keyring import Keyring
from tests.server.rig import FAST, http_client, run, serving, talker

from windlass_server import Settings, Tenants, create_app

DOCUMENT = "/v1/openapi.json"
FEW = replace(FAST, requests_burst=3, requests_per_s=0.001)


def test_the_document_is_rendered_once_and_a_client_that_has_it_gets_nothing(tmp_path: Path) -> None:
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
