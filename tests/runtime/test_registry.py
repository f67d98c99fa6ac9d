"""The agents of a runtime."""

import pytest
from tests.runtime.runtime_rig import look, mail, model_of, package_of, shop

from windlass.agent import Agent
from windlass.agent.hooks import hook
from windlass.agent.package import fingerprint, package_json
from windlass.errors import Rejected
from windlass.ports.host import HookCall
from windlass.runtime.registry import Registry, register_agent, register_package
from windlass_protocol import ErrorKind, HookSpec, RetryClass


@hook("after_tool_call")
def watch(seen: HookCall) -> None: ...


def test_an_agent_is_registered_with_all_that_its_package_names() -> None:
    model = model_of("done")
    agent = shop(model, hooks=[watch, HookSpec(hook_id="bare", point="after_tool_call")])
    registered = register_agent(agent)
    assert registered.package == package_of(agent)
    assert registered.fingerprint == fingerprint(registered.package)
    assert registered.content == package_json(registered.package)
    assert registered.tools == {"look": look, "mail": mail}
    assert registered.hooks == {"watch": watch}
    assert registered.provider is model
    assert registered.policy is not None


def test_an_agent_with_a_model_name_registers_no_provider() -> None:
    assert register_agent(Agent("a", model="openai/gpt-5")).provider is None


def test_a_package_brings_nothing_but_itself() -> None:
    registered = register_package(package_of())
    assert (registered.tools, registered.hooks) == ({}, {})
    assert (registered.policy, registered.provider) == (None, None)


def test_an_agent_with_an_invalid_output_schema_is_refused() -> None:
    with pytest.raises(Rejected, match="agent shop: output is not a usable JSON Schema: it is not"):
        shop(output={"type": "nonsense"})


def test_packages_are_found_by_their_ids_and_by_their_agents() -> None:
    registry = Registry([shop(version="2"), Agent("other", model="a/b")])
    assert len(registry) == 2
    found = registry.package("shop@2")
    assert found is not None
    assert registry.agent("shop") is found
    assert registry.resolve("shop@2") is found.package
    assert registry.package("shop") is None
    assert registry.agent("nobody") is None
    with pytest.raises(Rejected) as caught:
        registry.resolve("shop")
    assert caught.value.message == "unknown runtime package: shop"
    assert caught.value.kind is ErrorKind.INVALID_PACKAGE
    assert caught.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED


def test_a_package_that_replaces_others_leaves_nothing_of_them() -> None:
    registry = Registry([shop(), Agent("other", model="a/b")])
    taken = package_of(Agent("other", model="a/b")).model_copy(update={"package_id": "shop"})
    with pytest.raises(Rejected):
        registry.add(register_package(taken))
    assert len(registry) == 2
    registry.add(register_package(taken), replace=True)
    assert len(registry) == 1
    assert registry.agent("shop") is None
    assert registry.package("other") is None
    assert registry.agent("other") is registry.package("shop")


def test_a_copy_does_not_change_with_its_original() -> None:
    registry = Registry([shop()])
    copy = registry.copy()
    registry.add(register_agent(Agent("other", model="a/b")))
    assert (len(registry), len(copy)) == (2, 1)
    assert copy.agent("shop") is registry.agent("shop")


def test_an_agent_that_is_removed_is_gone_with_its_package_and_may_come_again() -> None:
    registry = Registry([shop(version="2"), Agent("other", model="a/b")])
    registry.remove("shop")
    registry.remove("shop")
    assert registry.names == ("other",)
    assert registry.package("shop@2") is None
    registry.add(register_agent(shop()))
    assert registry.names == ("other", "shop")
