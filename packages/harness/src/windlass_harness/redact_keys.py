"""Which names say that their value is a secret."""

import re
from functools import lru_cache
from typing import Final

KEY_CHARS_MAX: Final = 128  # a longer key is hardly a name; a secret's word in it is enough


def is_secret_key(key: str) -> bool:
    """Say whether a value under this key is a secret, however the key is spelt.

    `apiKey`, `X-Api-Key`, `OPENAI_API_KEY`, `apikey` and `api_key_v2` are one name. What ends in a plural or
    a measure (`tokens`, `inputTokens`, `tokenCount`, `passwordLength`) is not a secret. A key longer than
    `KEY_CHARS_MAX` is one if a secret's word is anywhere in it.
    """
    if len(key) <= KEY_CHARS_MAX:
        return _is_secret_name(key)
    return "[redacted" not in key and _LONG_KEY.search(_SEPARATOR.sub("", key.lower())) is not None


@lru_cache(maxsize=4096)
def _is_secret_name(key: str) -> bool:
    if "[redacted" in key:  # a masked key names nothing any more
        return False
    whole = _SEPARATOR.sub("", key.lower())
    name = _TAIL.sub("", whole)
    return (
        name in _WHOLE
        or _CONNECTION.search(whole) is not None
        or (name.endswith(_SECRET) and not name.endswith(_INNOCENT))
    )


_SEPARATOR: Final = re.compile(r"[^a-z0-9]")
_TAIL: Final = re.compile(
    r"(?:value|raw|plain|plaintext|b64|base64|hex|pem|header|hash|old|new|current|confirm|confirmation"
    r"|prod|production|staging|dev|live|string|v?[0-9]{1,9}){0,3}$"
)
_LONG_KEY: Final = re.compile(
    r"passw|passphrase|passcode|secret|credential|authorization|apikey|accesskey|privatekey|connectionstring"
    r"|token(?!s|count|i[sz]|type|limit|usage|budget)"
)

# These must be the whole name: other words, and addresses in Palau, end so too.
_WHOLE: Final = frozenset({"pw", "auth"})
# They hold a password among other things.
_CONNECTION: Final = re.compile(
    r"conn(?:ection)?str(?:ings?)?(?:value|prod|production|staging|dev|live|v?[0-9]{1,9})?$"
)

_SECRET: Final = (
    # words that stand alone
    *(
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "passcode",
        "secret",
        "secrets",
        "credential",
        "credentials",
    ),
    *("token", "authorization", "cookie", "cookies", "jwt", "bearer", "otp"),
    *("basicauth", "httpauth", "proxyauth", "registryauth", "xauth"),
    # a key is a secret only with a word before it: primary, cache and idempotency keys are not
    *("apikey", "apikeys", "accesskey", "accesskeys", "privatekey", "privatekeys", "secretkey", "secretkeys"),
    *(
        "signingkey",
        "encryptionkey",
        "masterkey",
        "authkey",
        "sshkey",
        "accountkey",
        "servicekey",
        "sharedkey",
    ),
    *("deploykey", "subscriptionkey", "hmackey", "consumerkey", "storagekey"),
    # many tokens are a count, unless the word before says what they open
    *("accesstokens", "authtokens", "apitokens", "bearertokens", "refreshtokens", "sessiontokens"),
    # `pass` alone is a test result and `pwd` alone a directory
    *("dbpass", "userpass", "smtppass", "mailpass", "adminpass", "rootpass", "redispass", "proxypass"),
    *("dbpwd", "userpwd", "mysqlpwd", "adminpwd", "rootpwd"),
    *("dbpw", "userpw", "mysqlpw", "adminpw", "rootpw"),
)

_INNOCENT: Final = (
    # places in a list or a text, and prices
    *("pagetoken", "pertoken", "firsttoken", "lasttoken", "nexttoken", "stoptoken", "endtoken", "starttoken"),
    *("eostoken", "bostoken", "padtoken", "unktoken", "clstoken", "septoken", "masktoken", "maxtoken"),
    *("inputtoken", "outputtoken", "prompttoken", "completiontoken", "canceltoken", "cancellationtoken"),
)
