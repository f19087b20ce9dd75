"""The resolved configuration of a run, as it goes into the log.

Plain frozen structs; unknown fields are refused. Reading files, environment and flags
is ``engine.cli.settings.layers``'s job; the search reads these structs and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from events.bodies import CallParams, Price, ReplyForm
from events.errors import NewerFormat
from events.observations import SECTIONS, SectionName
from events.outcomes import BaselineKind, Label, ScoredBy

__all__ = [
    "Budget", "Clients", "Config", "Limits", "ModelPrice", "OpenAI", "PlannerConfig", "Prompts",
    "RoleConfig", "Sandbox", "Search", "by_key_path", "config_from_log",
]  # fmt: skip


class Search(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy and its parameters; defaults are the paper's. Null switches a rule off."""

    method: Literal["stark", "sampling", "reflexion", "search_agent", "ma_only"] = "stark"
    """A policy and a team by one name; what is set by name goes before it."""
    policy: Literal[
        "stark", "epsilon_greedy", "greedy", "mcts", "evolution", "best_of_k", "iterative",
        "random",
    ] = "stark"  # fmt: skip
    team: Literal["plan_code_debug", "single"] = "plan_code_debug"
    repairs: bool = True
    """Off: no debug role, a failing node is planned for like any other."""
    anchors: bool = True
    """Off: the planner's anchors are stripped before any other role sees its plan."""
    workers: int = 1
    score: ScoredBy = "device"
    """What nodes are ranked by; a node without an eager figure (on the CPU) has its speedup."""
    seed: int = 0
    start: str | None = None
    """The file of a kernel of the user's, which becomes the first attempt."""
    epsilon: float = 0.3
    root_throttle: int | None = 5
    dead_branch: int | None = 3
    leaf_bias: bool = True
    uct_c: float = 2**0.5
    """Weight of the exploration term of ``mcts``; rewards are in 0..1."""
    population: int = 8
    tournament: int = 2
    """How many of the population are drawn for a parent's place (``evolution``)."""
    leaders: int = 2
    window_nodes: int = 5
    window_sampling: Literal["keep_selected", "literal"] = "keep_selected"
    windows: bool = True
    """Off: every role sees the selected node and the root only."""
    reasks: int = 2
    """How often an unusable reply is asked again before its attempt is abandoned."""
    call_tries: int = 6
    """Tries of one call before the run pauses; delays double from ``retry_wait_ms``."""
    retry_wait_ms: int = 1000
    outage_failures: int = 10
    """Failed tries in a row, of all calls to one model, after which it counts as down."""
    evaluation_tries: int = 3
    deduplicate: bool = True
    """A candidate whose normalised source was judged before gets that verdict."""


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be used up. Null: no limit."""

    attempts: int = 30
    usd: float | None = None
    tokens: int | None = None
    """Into and out of models, cached ones counted."""
    device_s: float | None = None
    """For which devices were leased."""
    wall_s: float | None = None
    """At work: time in which no process worked on the run does not count."""
    target_speedup: float | None = None
    patience: int | None = None
    """Stop after this many attempts in a row that brought no new best."""


class RoleConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A role's model. ``model`` is ``client:name``, such as ``anthropic:…``."""

    model: str = ""
    temperature: float | None = None
    effort: str | None = None
    max_tokens: int = 32_000
    """Output limit. Models that think by themselves think within it as well."""
    thinking: int = 0
    """Of these, how many may be thought with before the answer; 0: ``thinking`` is not sent."""
    timeout_s: float = 600.0
    reply: ReplyForm = "whole"
    """``spans``: only what takes the place of the marked blocks; for the coder alone."""
    observations: list[SectionName] = msgspec.field(
        default_factory=lambda: [name for name in SECTIONS if name != "counters"]
    )
    """The sections that this role sees of each attempt (docs/observations.md)."""

    @property
    def params(self) -> CallParams:
        """What every request of this role asks for."""
        return CallParams(
            temperature=self.temperature,
            effort=self.effort,
            max_tokens=self.max_tokens,
            thinking=self.thinking or msgspec.UNSET,
        )


class PlannerConfig(RoleConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The planner. Of several ``models``, which stand in place of ``model``, each attempt asks the
    one that promises most reward for its cost (``engine.core.planners``)."""

    models: list[str] = []
    reward_per: Literal["dollar", "token"] = "dollar"


_OF_THE_CODE: list[SectionName] = ["compiler", "execution", "error", "resources"]


class Roles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry a role; the temperatures are the paper's. ``single`` is the one agent of a
    team of one."""

    plan: PlannerConfig = PlannerConfig(temperature=0.8)
    code: RoleConfig = RoleConfig(temperature=0.1, observations=[*_OF_THE_CODE, "timing"])
    debug: RoleConfig = RoleConfig(temperature=0.1, observations=[*_OF_THE_CODE])
    single: RoleConfig = RoleConfig(temperature=0.7)


class OpenAI(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The server behind ``openai:MODEL``."""

    base_url: str | None = None
    """Up to ``/v1``, as a rule. Null: ``OPENAI_BASE_URL``, else OpenAI's own."""
    key_name: str = "OPENAI_API_KEY"
    """The environment variable that holds the key, if the server wants one."""


class Bedrock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where ``bedrock:MODEL`` is. Credentials are found as any AWS tool finds them."""

    base_url: str | None = None
    region: str | None = None
    """Null: ``AWS_REGION``, else the profile's."""
    profile: str | None = None


class Vertex(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where ``vertex:MODEL`` is. Credentials are Google's application default ones."""

    base_url: str | None = None
    region: str | None = None
    """Null: ``CLOUD_ML_REGION``."""
    project: str | None = None
    """Null: ``ANTHROPIC_VERTEX_PROJECT_ID``."""


class Clients(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients have to know beside the model; a section for each by its prefix."""

    wait_s: float = 0.0
    """How long a process in which nothing else can go on waits for deferred replies (of a
    mailbox or a batch) before the run pauses."""
    openai: OpenAI = OpenAI()
    bedrock: Bedrock = Bedrock()
    vertex: Vertex = Vertex()


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of each provider's model, for all runs of a process. Null: what it turns out to allow."""

    calls: int | None = None
    """In flight."""
    tokens_a_minute: int | None = None


class ModelPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs, in dollars a million tokens. Cached tokens cost what others do, unless
    they are given a price of their own."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    @property
    def price(self) -> Price:
        """The same as a log has it."""
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        return Price(
            input_usd_micros_per_mtok=round(self.input * 1_000_000),
            output_usd_micros_per_mtok=round(self.output * 1_000_000),
            cache_read_usd_micros_per_mtok=round(read * 1_000_000),
            cache_write_usd_micros_per_mtok=round(write * 1_000_000),
        )


class Prompts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What prompts hold. ``system``: one of three messages, or a new one each attempt."""

    system: Literal["main", "alternate_1", "alternate_2", "rotate"] = "main"
    device_facts: bool = True
    accuracy: bool = True
    """How close results have to be, in protocols that have words for it (``strict``…)."""
    language: str = "auto"
    """One of ``agents/languages/``, or ``auto``: it goes with the device."""


class Sandbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where and how candidates are judged."""

    device: str = "auto"
    """``cpu``, ``cuda:N``, several alike as ``cuda:0,cuda:1``, or ``auto``: the first CUDA
    device, else the CPU."""
    protocol: Literal[
        "strict", "strict-tf32", "strict-bf16", "verified", "kernelbench", "paper"
    ] = "strict"
    require_isolation: Literal["A", "B", "C"] = "B"
    """The weakest tier of isolation (docs/sandbox/limits.md) that candidates are run in."""
    baselines: list[BaselineKind] = msgspec.field(default_factory=lambda: ["eager"])
    """What the reference is timed as. Eager always is: every score is relative to it."""
    compile_timeout_s: float = 300.0
    run_timeout_s: float = 120.0
    bench_s: float | None = None
    """Seconds of timing a candidate, at most; null: 3 on the CPU, 5 on CUDA."""
    autopsy_timeout_s: float = 20.0
    """One extra run, in a sanitizer, of a candidate that crashed; 0: none."""
    sanitize: bool = False
    """Such a run also of what would be the best so far."""
    observe_share: float = 0.25
    """Of the time that judging a correct candidate took, what its profile may add to it."""
    counters_timeout_s: float = 30.0
    """One extra run of a correct candidate under Nsight Compute, if a role sees counters."""
    memory_gb: int = 16
    """Of a candidate's processes; on the CPU it bounds addresses, with files mapped in."""
    threads: int | None = None
    """Torch and OpenMP threads of what is timed; null: one on each core that times."""
    refuse: list[Label] = []
    """Labels (docs/sandbox/verdicts.md) that make a correct candidate a failure all the same."""
    cache_verdicts: bool = False
    """A verdict on the same candidate that an earlier run kept will do, if it is no new best."""
    cache_gb: float = 10.0
    """Bound of all kept builds together, in units of 2**30 bytes."""
    compile_jobs: int | None = None
    """Compilers side by side; null: one core is left to the timing."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything. ``model`` is the default for roles that name none."""

    model: str = "anthropic:claude-sonnet-5-5"
    temperature: float | None = None
    """One for all roles, whatever theirs are; null: each role has its own."""
    search: Search = Search()
    budget: Budget = Budget()
    roles: Roles = Roles()
    clients: Clients = Clients()
    limits: Limits = Limits()
    prices: dict[str, ModelPrice] = {}
    """By ``client:model``; they go before the table's (``agents.prices``)."""
    prompts: Prompts = Prompts()
    sandbox: Sandbox = Sandbox()

    def role(self, name: str) -> RoleConfig:
        """The role's configuration with what goes for all roles filled in."""
        role: RoleConfig = getattr(self.roles, name)
        if not role.model:
            role = msgspec.structs.replace(role, model=self.model)
        if self.temperature is not None:
            role = msgspec.structs.replace(role, temperature=self.temperature)
        return role

    def models(self, role: str) -> list[str]:
        """All that may be asked for the role."""
        if role == "plan" and self.roles.plan.models:
            return self.roles.plan.models
        return [self.role(role).model]

    @property
    def given_prices(self) -> dict[str, Price]:
        """Those of ``prices``, by ``client:model``."""
        return {model: given.price for model, given in self.prices.items()}

    def client(self, model: str) -> dict[str, Any]:
        """The settings of the client that ``model`` names by its prefix."""
        section = getattr(self.clients, model.partition(":")[0], None)
        return {} if section is None else msgspec.structs.asdict(section)


def by_key_path(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested data with its key's path, such as ``search.epsilon``."""
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from by_key_path(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def config_from_log(data: dict[str, Any]) -> Config:
    """The configuration in a ``RunStarted`` event. Raises ``NewerFormat``."""
    try:
        return msgspec.convert(data, Config)
    except msgspec.ValidationError as error:
        raise NewerFormat(
            f"the run's configuration is not known to this version of engine ({error}):"
            " update engine"
        ) from error
