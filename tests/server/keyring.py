"""Keys and tokens for tests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from windlass_server.auth import new_key
from windlass_server.settings import JwtSettings

ISSUER, AUDIENCE = "https://issuer.example", "windlass"


@dataclass(slots=True)
class Keyring:
    """A file of keys that can be changed while a server runs."""

    path: Path
    entries: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def add(self, key_id: str, tenant: str, user: str, **more: object) -> str:
        key, entry = new_key(key_id, tenant, user=user)
        plain = entry.model_dump(mode="json", by_alias=True, include={"id", "sha256", "tenant", "user"})
        self.entries[key_id] = {**plain, **more}
        self.write()
        return key

    def change(self, key_id: str, **more: object) -> None:
        self.entries[key_id] |= more
        self.write()

    def write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"keys": list(self.entries.values())}), encoding="utf-8")
        new.replace(self.path)


@dataclass(slots=True)
class Issuer:
    """A token issuer."""

    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    key_id: str = "k1"

    @property
    def jwks(self) -> str:
        public = cast(Mapping[str, Any], OKPAlgorithm.to_jwk(self.key.public_key(), as_dict=True))
        return json.dumps({"keys": [{**public, "kid": self.key_id, "alg": "EdDSA", "use": "sig"}]})

    def settings(self, folder: Path) -> JwtSettings:
        path = folder / "jwks.json"
        path.write_text(self.jwks, encoding="utf-8")
        return JwtSettings(ISSUER, AUDIENCE, str(path))

    def token(self, tenant: object = "acme", user: object = "ann", **claims: object) -> str:
        now = datetime.now(UTC)
        body = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "tenant": tenant,
            "exp": now + timedelta(minutes=5),
            **claims,
        }
        given = {name: value for name, value in body.items() if value is not None}
        return jwt.encode(given, self.key, algorithm="EdDSA", headers={"kid": self.key_id})
