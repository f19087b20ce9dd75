"""Every policy against its definition, over simulated runs with any interleaving."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.policies import POLICIES
from engine.core.returns import Returns
from events.bodies import EvaluationFinished, NodeSelected
from projections.search.reward import UNIT, reward
from replay.verify import replay
from tests.engine import naive
from tests.engine.naive_policies import NAIVE
from tests.engine.world import World, as_events, config_of, team_of
from tests.thorough import examples

each_policy = pytest.mark.parametrize("policy", POLICIES)
NO_RULES = config_of(root_throttle=None, dead_branch=None).search
some = settings(max_examples=examples(40), deadline=None)


def worlds(policy: str) -> st.SearchStrategy[World]:
    configs = st.builds(
        config_of,
        policy=st.just(policy),
        attempts=st.integers(1, 40),
        workers=st.sampled_from([1, 1, 2, 4, 12]),
        seed=st.integers(0, 2**31),
        epsilon=st.sampled_from([0.0, 0.3, 1.0]),
        root_throttle=st.sampled_from([None, 2, 5]),
        dead_branch=st.sampled_from([None, 0, 3]),
        leaf_bias=st.booleans(),
        uct_c=st.sampled_from([0.0, 0.5, 2**0.5]),
        population=st.integers(1, 10),
        tournament=st.integers(1, 4),
        team=st.sampled_from(["plan_code_debug", "plan_code_debug", "single"]),
        repairs=st.sampled_from([True, True, False]),
        reasks=st.integers(0, 1),
        score=st.sampled_from(["device", "eager"]),
    )
    return st.builds(
        lambda config, chance, trouble, failing: World(
            config, chance, trouble=trouble, failing=failing
        ).run(),
        configs,
        st.integers(0, 2**31),
        st.sampled_from([0.0, 0.0, 0.2]),
        st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    )


@each_policy
@some
@given(st.data())
def test_a_policy_is_its_definition_and_replays(policy: str, data: st.DataObject) -> None:
    world = data.draw(worlds(policy))
    search, repaired = world.state.config.search, set[int]()
    if policy != "stark":  # the adaptations are stark's: for the others they are not there
        search = msgspec.structs.replace(search, root_throttle=None, dead_branch=None)
    for at, body in enumerate(world.bodies):
        if isinstance(body, NodeSelected):
            nodes = naive.build(world.bodies[:at])
            assert body.node == NAIVE[policy](nodes, body, search, repaired)
            assert nodes[body.node].done
            if body.repair:
                repaired.add(body.node)
    assert replay(as_events(world.bodies), team_of).difference is None


def selected(world: World) -> list[NodeSelected]:
    return [body for body in world.bodies if isinstance(body, NodeSelected)]


def test_one_chain_under_iterative_refinement_and_k_with_k_workers() -> None:
    world = World(config_of(policy="iterative", attempts=12), 1).run()
    assert [body.node for body in selected(world)] == list(range(12))
    world = World(config_of(policy="iterative", attempts=40, workers=4), 1).run()
    tree = world.state.tree
    assert len(tree.root.children) == 4
    assert all(len(node.children) <= 1 for node in tree.nodes.values() if node.id)


def test_after_a_pause_the_newest_of_the_ends_goes_on_first() -> None:
    config, ends = config_of(policy="iterative", attempts=40, workers=4, reasks=0), 0
    for chance in range(30):
        world = World(config, chance, trouble=0.2).run()
        for at, body in enumerate(world.bodies):
            if isinstance(body, NodeSelected):
                nodes = naive.build(world.bodies[:at])
                ends = max(ends, len(naive.leaves(nodes, NO_RULES)))
                assert body.node == NAIVE["iterative"](nodes, body, config.search, set())
    assert ends > 1


def test_greedy_stays_at_the_root_until_something_is_faster() -> None:
    world = World(config_of(policy="greedy", attempts=20), 2, failing=1.0).run()
    assert {body.node for body in selected(world)} == {0}


def test_evolution_waits_while_its_whole_population_is_in_flight() -> None:
    world = World(config_of(policy="evolution", population=3, workers=8, attempts=20), 1)
    world.step()
    assert len(world.state.attempts) == 3
    world.run()
    assert len(world.state.tree.root.children) == 3
    assert world.state.attempts_ended == 20


def test_virtual_loss_spreads_the_workers_of_a_tree_search() -> None:
    """Without it all would go down to the one best child."""
    world = World(config_of(policy="mcts", workers=6, attempts=60), 3, failing=0.3).run()
    in_flight: set[int] = set()
    most = 0
    for body in world.bodies:
        if isinstance(body, NodeSelected):
            in_flight.add(body.attempt)
        elif isinstance(body, EvaluationFinished):
            in_flight.discard(body.attempt)
        parents = {world.state.tree[attempt].parent for attempt in in_flight}
        most = max(most, len(parents))
    assert most >= 4


@some
@given(worlds("mcts"))
def test_returns_are_the_sums_over_subtrees_and_can_be_made_from_a_tree(world: World) -> None:
    """A fork goes on from a tree that was searched by another policy."""
    tree, anew = world.state.tree, Returns()
    for node in tree.nodes.values():
        anew.update(tree, node)
    nodes = naive.build(world.bodies)
    for node in nodes:
        below = naive.subtree(nodes, node)
        rewards = sum(reward(nodes[other].runtime, nodes[0].runtime) for other in below)
        for returns in (world.state.returns, anew):
            assert (returns.visits(node), returns.rewards(node)) == (len(below), rewards)


def test_a_reward_grows_with_the_speedup_between_0_and_1() -> None:
    runtimes = [None, 1e9, 30.0, 10.0, 5.0, 1e-9]
    rewards = [reward(runtime, 10.0) / UNIT for runtime in runtimes]
    assert rewards == sorted(rewards)
    assert rewards[0] == 0
    assert rewards[3:5] == [0.5, pytest.approx(2 / 3)]
    assert rewards[5] <= 1
