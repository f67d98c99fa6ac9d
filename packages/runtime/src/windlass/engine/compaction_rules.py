"""When the history of a run is compacted, by what its package and its model say."""

from dataclasses import replace
from typing import Final

from windlass.package import compaction_config, compaction_route
from windlass_harness.compaction import estimate_tokens
from windlass_harness.loop.rules import CompactionRule
from windlass_protocol import JsonObject, RuntimePackage

_WINDOW_TENTHS: Final = 9
"""How much of a known window a prompt may fill before it is compacted."""


def compaction_rule(
    package: RuntimePackage, window: int | None, *, definitions: list[JsonObject]
) -> CompactionRule:
    """Return the rule for runs of a package.

    The author of the agent comes first, then `window`, the context window of the model in tokens. Without
    either there is a threshold all the same; but it is a guess, and a guess does not end a run.
    """
    config = compaction_config(package)
    rule = CompactionRule(
        limit=window,
        overhead_tokens=estimate_tokens(package.agent.instructions or "") + estimate_tokens(definitions),
        model_id=(compaction_route(package) or package.provider_route).model_id,
    )
    if config is not None:
        return replace(
            rule,
            threshold=config.threshold,
            recent_window_size=config.recent_window_size,
            limit=max(config.threshold, window or 0),
        )
    return rule if window is None else replace(rule, threshold=window * _WINDOW_TENTHS // 10)
