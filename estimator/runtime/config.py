"""What an operator may set for `kappad serve`, with every bound of the sidecar.

A value comes from, the later ones winning: the default, the TOML file, ``KAPPAD_SERVE_*``
variables, flags.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from estimator.runtime.address import AddressError, TcpAddress, parse_http, parse_listen
from sched_client.model import (
    DEFAULT_KAPPA_TOKENS_PER_S,
    MAX_REORDER_ABOVE,
    Between,
    Mode,
    OrderBy,
    Preemption,
    Settings,
    Within,
)
from sched_client.policies import POLICY_NAMES
from sched_client.settings import MAX_TIER_WEIGHT, WEIGHT_LIMITS

__all__ = ["ConfigError", "ServeConfig", "load_config", "unknown_variables"]

ENVIRONMENT_PREFIX: Final = "KAPPAD_SERVE_"
_Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
# An int32 of the API holds them, and an integer of SQLite.
_MOST: Final = 2**31 - 1
_Count = Annotated[int, Field(ge=1, le=_MOST)]


_DEFAULTS: Final = Settings()


def _weight(name: str) -> Any:  # Any: a Field's own type is no class
    return Field(ge=0.0, le=WEIGHT_LIMITS[name])


class ConfigError(ValueError):
    """A value that cannot be used; the message names it, its limit and the remedy."""


class ServeConfig(BaseSettings):
    """The settings of one sidecar; immutable.

    Attributes
    ----------
    listen : str
        ``unix:///absolute/path`` or ``host:port``.
    http : str
        ``host:port`` of /healthz and /metrics; empty for none.
    allow_remote : bool
        Whether an address beyond this machine is accepted. There is no authentication.
    state_dir : str
        Directory of the store, or ``:memory:``.
    seed : str
        File of ``kappad export --model`` that an empty store starts from; empty for none.
    mode, policy, order_by, phi, burst_requests, guard_s, reorder_above, reorder_until
        Initial `Settings`; a mode that was set at run time wins over ``mode``.
    within, between, w_urgency, w_fairness, aging_rate, aging_power, short_share, short_share_most
        Initial `Settings`, for the policy ewsjf.
    tier_weight, preemption
        Initial `Settings`; ``inf`` for the first lets a smaller priority always go first.
    prior_kappa : float
        Tokens per second of audio assumed before anything is learned, > 0.
    publish_interval_s : float
        Least seconds between two snapshots; up to 1 s where publishing thousands of keys would
        take more than 2.5 % of the time.
    bookmark_interval_s : float
        Seconds after which an idle watcher is told that nothing changed.
    checkpoint_interval_s, checkpoint_completions
        A checkpoint is taken when either has passed since the last one: bounds the replay. After
        so many completions it may still wait until it takes at most 2 % of the time.
    kappa_point_interval_s : float
        Least seconds between two points of one key's history.
    drain_delay_s : float
        Seconds at the end in which calls still on their way are refused with a reason.
    drain_timeout_s : float
        Seconds that calls in progress get at the end.
    backlog_limit : int
        Most completions that wait to be stored and learned.
    batch_limit : int
        Most rows of one call.
    message_limit_bytes : int
        Most bytes of a message that is received; key_limit bounds what is sent.
    watcher_limit : int
        Most watches at once.
    rpc_limit : int
        Most calls in progress at once, watches included.
    client_limit : int
        Most clients remembered for GetStatus.
    key_limit : int
        Most keys with a κ.
    delta_limit : int
        Most past snapshots that a watcher can resume from.
    retention_completions : int
        Most completions kept in the store.
    kappa_points_per_key_limit, kappa_points_limit : int
        Most points of κ's history, for each key and in all.
    drift_events_limit, partitions_limit, mode_changes_limit : int
        Most drift events, partitions and switches of the mode kept.
    store_synchronous : {"NORMAL", "FULL"}
        What an acknowledgement promises on power loss; see `SqliteStore`.
    log_format : {"auto", "json", "console"}
        ``auto`` is ``console`` on a terminal.
    log_level : {"debug", "info", "warning", "error"}
        The least severe level that is written.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, frozen=True, extra="forbid", validate_default=True
    )

    listen: str = "unix:///run/kappad/kappad.sock"
    http: str = ""
    allow_remote: bool = False
    state_dir: Annotated[str, Field(min_length=1)] = "/var/lib/kappad"
    seed: str = ""
    mode: Mode = _DEFAULTS.mode
    policy: str = _DEFAULTS.policy
    order_by: OrderBy = _DEFAULTS.order_by
    phi: Annotated[float, Field(ge=0.0, lt=1.0)] = _DEFAULTS.phi
    burst_requests: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = _DEFAULTS.burst_requests
    guard_s: _Positive | None = _DEFAULTS.guard_s
    reorder_above: Annotated[int, Field(ge=0, le=MAX_REORDER_ABOVE)] = _DEFAULTS.reorder_above
    reorder_until: Annotated[int, Field(ge=0)] = _DEFAULTS.reorder_until
    within: Within = _DEFAULTS.within
    between: Between = _DEFAULTS.between
    w_urgency: Annotated[float, _weight("w_urgency")] = _DEFAULTS.w_urgency
    w_fairness: Annotated[float, _weight("w_fairness")] = _DEFAULTS.w_fairness
    aging_rate: Annotated[float, _weight("aging_rate")] = _DEFAULTS.aging_rate
    aging_power: Annotated[float, _weight("aging_power")] = _DEFAULTS.aging_power
    short_share: Annotated[float, _weight("short_share")] = _DEFAULTS.short_share
    short_share_most: Annotated[float, _weight("short_share_most")] = _DEFAULTS.short_share_most
    tier_weight: Annotated[float, Field(ge=1.0)] = _DEFAULTS.tier_weight
    preemption: Preemption = _DEFAULTS.preemption
    prior_kappa: _Positive = DEFAULT_KAPPA_TOKENS_PER_S
    publish_interval_s: Annotated[float, Field(gt=0.0, le=60.0)] = 0.2
    bookmark_interval_s: Annotated[float, Field(gt=0.0, le=60.0)] = 5.0
    checkpoint_interval_s: _Positive = 30.0
    checkpoint_completions: _Count = 50_000
    kappa_point_interval_s: _Positive = 5.0
    drain_delay_s: Annotated[float, Field(ge=0.0, le=60.0)] = 0.2
    drain_timeout_s: _Positive = 10.0
    backlog_limit: _Count = 65_536
    batch_limit: Annotated[int, Field(ge=1, le=65_536)] = 1024
    message_limit_bytes: Annotated[int, Field(ge=65_536, le=2**30)] = 4 * 2**20
    watcher_limit: _Count = 64
    rpc_limit: _Count = 512
    client_limit: _Count = 256
    key_limit: Annotated[int, Field(ge=10, le=_MOST)] = 20_000
    delta_limit: _Count = 256
    retention_completions: _Count = 1_000_000
    kappa_points_per_key_limit: _Count = 2_000
    kappa_points_limit: _Count = 200_000
    drift_events_limit: _Count = 10_000
    partitions_limit: _Count = 10_000
    mode_changes_limit: _Count = 1_000
    store_synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    log_format: Literal["auto", "json", "console"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags, variables, file."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @field_validator("policy")
    @classmethod
    def _known_policy(cls, value: str) -> str:
        # Every engine would fall back to FCFS, as it must for a policy of a newer sidecar.
        if value not in POLICY_NAMES:
            raise ValueError(f"must be one of {', '.join(sorted(POLICY_NAMES))}")
        return value

    @field_validator("guard_s", mode="before")
    @classmethod
    def _no_guard(cls, value: object) -> object:
        # A variable cannot say None otherwise.
        return None if value in ("", "none", "off") else value

    @field_validator("tier_weight")
    @classmethod
    def _usable_tier_weight(cls, value: float) -> float:
        if MAX_TIER_WEIGHT < value < math.inf:
            raise ValueError(f"must be at most {MAX_TIER_WEIGHT:g}, or inf")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> "ServeConfig":
        listen = parse_listen(self.listen)
        http = parse_http(self.http)
        for name, address in (("listen", listen), ("http", http)):
            if isinstance(address, TcpAddress) and not (address.loopback or self.allow_remote):
                raise AddressError(
                    f"{name}={address.text!r} can be reached from other machines, and there is no "
                    "authentication; use a unix socket, 127.0.0.1, or allow_remote=true"
                )
        if "reorder_until" not in self.model_fields_set:
            # Whoever lowers the other, as was enough once, asks for no more than that.
            object.__setattr__(self, "reorder_until", min(self.reorder_until, self.reorder_above))
        if self.reorder_until > self.reorder_above:
            raise ValueError(
                f"reorder_until={self.reorder_until} is above reorder_above={self.reorder_above}; "
                "lower it, or raise the other"
            )
        if self.backlog_limit < self.batch_limit:
            raise ValueError(
                f"backlog_limit={self.backlog_limit} is below batch_limit={self.batch_limit}, so "
                "that a full batch could never be taken; raise it"
            )
        return self

    def settings(self) -> Settings:
        """Give the initial settings of the schedulers."""
        return Settings(**{one.name: getattr(self, one.name) for one in fields(Settings)})


def load_config(
    *, config_file: str | os.PathLike[str] | None = None, flags: Mapping[str, Any] | None = None
) -> ServeConfig:
    """Read the configuration from all its sources.

    Parameters
    ----------
    config_file : path, optional
        TOML with the names of `ServeConfig`; ``KAPPAD_SERVE_CONFIG`` names it if absent.
    flags : Mapping, optional
        What was given on the command line; None stands for a flag that was not.

    Returns
    -------
    ServeConfig
        Validated.

    Raises
    ------
    ConfigError
        Naming each bad value, its limit and the remedy.
    """
    # Any: each flag has its own type; pydantic checks them.
    given: dict[str, Any] = {k: v for k, v in (flags or {}).items() if v is not None}
    name = config_file or os.environ.get(ENVIRONMENT_PREFIX + "CONFIG")
    path = Path(name) if name else None
    if path is not None and not path.is_file():
        raise ConfigError(f"config file {str(path)!r} is no readable file; check its path")

    class FromFile(ServeConfig):
        model_config = SettingsConfigDict(toml_file=path)

    try:
        return FromFile(**given)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(error))) from error
    except (OSError, ValueError) as error:  # tomllib's error is a ValueError
        raise ConfigError(f"config file {path}: {error}; write TOML such as phi = 0.3") from error


def unknown_variables() -> list[str]:
    """Name the variables that look like settings and are none: a typing error, most likely."""
    known = {"CONFIG", *map(str.upper, ServeConfig.model_fields)}
    return sorted(
        name
        for name in os.environ
        if name.startswith(ENVIRONMENT_PREFIX)
        and name.removeprefix(ENVIRONMENT_PREFIX) not in known
    )


def _explain(error: ValidationError) -> list[str]:
    lines = []
    for item in error.errors():
        name = ".".join(map(str, item["loc"]))
        message = item["msg"].removeprefix("Value error, ")
        if not name:
            lines.append(message)
        elif item["type"] == "extra_forbidden":
            known = ", ".join(ServeConfig.model_fields)
            lines.append(f"{name} is no setting; remove it or use one of: {known}")
        else:
            lines.append(
                f"{name}={item['input']!r}: {message}; correct the flag, "
                f"{ENVIRONMENT_PREFIX}{name.upper()} or the config file"
            )
    return lines
