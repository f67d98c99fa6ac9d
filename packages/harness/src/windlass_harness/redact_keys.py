"""Which names say that their value is a secret."""

import re
from functools import lru_cache
from typing import Final

KEY_CHARS_MAX: Final = 128  # a longer key is data, not a name


def is_secret_key(key: str) -> bool:
    """Say whether a value under this key is a secret, however the key is spelt.

    `apiKey`, `X-Api-Key`, `OPENAI_API_KEY`, `apikey` and `api_key_2` are one name. What ends in a plural or
    a measure (`tokens`, `inputTokens`, `tokenCount`, `passwordLength`) is not a secret.
    """
    return len(key) <= KEY_CHARS_MAX and _is_secret_name(key)


@lru_cache(maxsize=4096)
def _is_secret_name(key: str) -> bool:
    if "[redacted" in key:  # a masked key names nothing any more
        return False
    name = _TAIL.sub("", _SEPARATOR.sub("", key.lower()))
    # `pw` must be the whole name: other words, and addresses in Palau, end so too
    return name == "pw" or (name.endswith(_SECRET) and not name.endswith(_INNOCENT))


_SEPARATOR: Final = re.compile(r"[^a-z0-9]")
_TAIL: Final = re.compile(
    r"(?:value|raw|plain|plaintext|b64|base64|hex|pem|header|hash|old|new|current|confirm|confirmation"
    r"|prod|production|staging|dev|live|[0-9]{1,9}){0,3}$"
)

_SECRET: Final = (
    # words that stand alone
    *("password", "passwords", "passwd", "passphrase", "secret", "secrets", "credential", "credentials"),
    *("token", "authorization", "cookie", "cookies", "jwt", "bearer", "otp"),
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
