"""Random texts are masked as if every shape were searched for in all of them.

    python -m tests.harness.masked_texts 1000000 [SEED]

It prints one line of JSON and exits with 1 if a text was masked otherwise. The definition is the pattern of
each shape, in order, over the whole text; the product searches only near seeds.
"""

import json
import random
import sys
from typing import Final

from tests.harness.test_redact_shapes import PIECES, SECRETS, mask_without_seeds

from windlass_harness.redact import shapes

TOKENS: Final = tuple(token for tokens in SECRETS.values() for token in tokens)
JOINTS: Final = (
    *(
        ',"',
        ", '",
        "',",
        '("',
        '["',
        '":"',
        '": "',
        "{'",
        ";'",
        '\\"',
        "\r",
        "\r\n",
        "\f",
        "\n+",
        "  ",
        "   ",
    ),
    *(
        "[0;31m",
        "\\x22",
        "\\u0041",
        "%41",
        "+",
        "?",
        "sig=",
        "signature",
        "pa_ssword",
        "pass_word",
        "_" * 40,
        "---",
    ),
    *("İ", "K", "ſ", "日本", "a" * 70, "z9" * 130),
)
FORMS: Final = (
    *("https://a:b@", "http://ab12@c", "-u joe:pass1234 ", "--proxy-user 'a:b c'", "Server=x;Password=y7"),
    *("Cookie: a=b; c", "Authorization: Custom ", "AKIAA1B2C3D4E5F6G7H8"),
)
LINE_SIZES: Final = (0, 40, shapes._LINE_CHARS_MAX)  # pyright: ignore[reportPrivateUsage]


def compare(count: int, seed: int) -> dict[str, object]:
    """Mask so many random texts; return how many had a secret, and those that were masked otherwise."""
    chance, masked, wrong = random.Random(seed), 0, list[str]()
    for _ in range(count):
        pieces = chance.choice((PIECES, (*PIECES, *TOKENS, *JOINTS, *FORMS)))
        text = "".join(chance.choices(pieces, k=chance.randint(1, 16)))
        expected = mask_without_seeds(text)
        masked += expected != text
        # A short line that counts as a long one is cut where a long one would be.
        shapes._LINE_CHARS_MAX = chance.choice(LINE_SIZES)  # pyright: ignore[reportPrivateUsage]
        try:
            if shapes.mask_shapes(text) != expected:
                wrong.append(text)
        finally:
            shapes._LINE_CHARS_MAX = LINE_SIZES[-1]  # pyright: ignore[reportPrivateUsage]
    return {"texts": count, "seed": seed, "masked": masked, "wrong": wrong[:10]}


def main() -> int:
    """Compare as many texts as the command line says."""
    done = compare(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**32))
    sys.stdout.write(json.dumps(done) + "\n")
    return 1 if done["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
