"""The inspector pages: security headers, caching, and files that are not served."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from tests.server.rig import run, serving

from windlass_server import inspector
from windlass_server.inspector import NOT_BUILT, Pages

PAGE = {"accept": "text/html,application/xhtml+xml"}


async def otherwise(scope: Scope, receive: Receive, send: Send) -> None:
    """The application behind the pages."""
    await send({"type": "http.response.start", "status": 404, "headers": [(b"x-from", b"routes")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def built(tmp_path: Path) -> TestClient:
    """An app that is built, with a secret next to its folder."""
    folder = tmp_path / "inspector"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<title>first page</title>")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "assets" / "index-abc123.js").write_text("run()")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return TestClient(Pages(otherwise, folder))


def test_files_with_a_digest_in_their_name_are_immutable_and_others_are_revalidated(
    built: TestClient,
) -> None:
    script = built.get("/assets/index-abc123.js")
    assert (script.status_code, script.text) == (200, "run()")
    assert "javascript" in script.headers["content-type"]
    assert "immutable" in script.headers["cache-control"]
    for path in ("/", "/icon.svg"):
        assert built.get(path).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("path", ["/", "/chat/a%2Fb", "/sessions/x?view=journal", "/nowhere"])
def test_every_address_of_the_app_is_its_first_page(built: TestClient, path: str) -> None:
    answer = built.get(path, headers=PAGE)
    assert (answer.status_code, answer.text) == (200, "<title>first page</title>")


@pytest.mark.parametrize("path", ["/", "/icon.svg", "/assets/index-abc123.js", "/chat/x"])
def test_the_content_security_policy_of_a_page_allows_only_this_server(built: TestClient, path: str) -> None:
    headers = built.get(path, headers=PAGE).headers
    rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert rules["default-src"] == "'none'"
    assert {rules[f"{kind}-src"] for kind in ("script", "style", "img", "connect", "font")} == {"'self'"}
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["require-trusted-types-for"] == "'script'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/..%5csecret.txt",
        "//etc/passwd",
        "/link.txt",
        "/%00",
    ],
)
def test_nothing_outside_the_folder_is_sent(built: TestClient, path: str) -> None:
    answer = built.get(path)
    assert (answer.status_code, answer.headers["x-from"]) == (404, "routes")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/"), ("DELETE", "/chat"), ("GET", "/v1"), ("GET", "/v1/nothing"), ("GET", "/assets/gone.js")],
)
def test_paths_without_a_page_are_left_to_the_routes(built: TestClient, method: str, path: str) -> None:
    answer = built.request(method, path)
    assert (answer.status_code, answer.headers["x-from"]) == (404, "routes")


@pytest.mark.parametrize("path", ["/v1", "/v1/nothing", "/eve/v1", "/eve/v1/nothing"])
def test_a_path_of_routes_is_never_the_app_even_for_a_browser(built: TestClient, path: str) -> None:
    assert built.get(path, headers=PAGE).headers["x-from"] == "routes"


def test_an_app_that_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    answer = TestClient(Pages(otherwise, tmp_path / "nothing")).get("/", headers=PAGE)
    assert (answer.status_code, answer.text) == (404, NOT_BUILT)
    assert "make inspector" in answer.text


def test_a_server_sends_the_app_and_answers_unknown_routes_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "index.html").write_text("<title>first page</title>")
    monkeypatch.setattr(inspector, "FOLDER", folder)

    async def main() -> None:
        async with serving(tmp_path / "data") as server, server.client() as client:
            root = str(client.base_url).removesuffix("/v1/")
            assert (await client.get(f"{root}/")).text == "<title>first page</title>"
            assert (await client.get(f"{root}/chat", headers=PAGE)).status_code == 200
            for path in ("/nothing", "/v1/nothing"):
                answer = await client.get(f"{root}{path}")
                assert (answer.status_code, answer.json()["code"]) == (404, "not_found")

    run(main())


def test_compressible_files_are_sent_gzipped_if_the_client_accepts_it(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    text = "run();" * 1_000
    (tmp_path / "assets" / "a-1.js").write_text(text)
    (tmp_path / "assets" / "a-1.png").write_bytes(b"x" * 1_000)
    (tmp_path / "index.html").write_text("<p>" * 1_000)
    client = TestClient(Pages(otherwise, tmp_path))
    for path, is_packed in (("/assets/a-1.js", True), ("/assets/a-1.png", False), ("/", True)):
        whole = client.get(path, headers={"accept-encoding": "identity"})
        packed = client.get(path, headers={"accept-encoding": "br;q=1.0, gzip;q=0.8"})
        assert packed.content == whole.content
        assert "content-encoding" not in whole.headers
        assert (packed.headers.get("content-encoding") == "gzip") == is_packed
        assert (int(packed.headers["content-length"]) < len(whole.content)) == is_packed
        assert packed.headers["vary"] == "accept-encoding"
        head = client.head(path)
        assert (head.content, head.headers["content-length"]) == (b"", packed.headers["content-length"])
    for refused in ("gzip;q=0", "gzip;q=0.0", "br", ""):
        answer = client.get("/assets/a-1.js", headers={"accept-encoding": refused})
        assert "content-encoding" not in answer.headers


def test_a_file_that_a_browser_has_is_not_sent_again_until_it_changes(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text("one")
    client = TestClient(Pages(otherwise, tmp_path))
    tag = client.get("/").headers["etag"]
    again = client.get("/", headers={"if-none-match": f'"other", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    page.write_text("another")
    changed = client.get("/", headers={"if-none-match": tag})
    assert (changed.status_code, changed.text) == (200, "another")
