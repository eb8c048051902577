from __future__ import annotations

import dataclasses
import json
import pickle
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from reverie.domain.errors import InvalidInput, MissingExtra, NotFound
from reverie.settings import Settings

GOLEMCORE = {
    "memory": {
        "enabled": True,
        "recentDays": 7,
        "softPromptBudgetTokens": 1800,
        "maxPromptBudgetTokens": 3500,
        "workingTopK": 6,
        "episodicTopK": 8,
        "semanticTopK": 6,
        "proceduralTopK": 4,
        "promotionEnabled": True,
        "promotionMinConfidence": 0.75,
        "decayEnabled": True,
        "decayDays": 30,
        "codeAwareExtractionEnabled": True,
        "legacyDailyNotesEnabled": True,
    },
    "compaction": {"enabled": True, "maxContextTokens": 50000, "keepLastMessages": 20},
}
ROCKBOT = {
    "MemoryOptions": {"BasePath": "memory"},
    "AgentProfileOptions": {"BasePath": "agent"},
    "WorkingMemoryOptions": {"DefaultTtlMinutes": 5, "MaxEntriesPerSession": 50},
    "ConversationMemoryOptions": {"MaxTurnsPerSession": 50, "SessionIdleTimeout": "01:00:00"},
    "DreamOptions": {
        "DirectivePath": "dream.md",
        "PreferenceDirectivePath": "pref-dream.md",
        "PreferenceInferenceEnabled": True,
    },
    "MaxLlmContextTurns": 20,
}


@pytest.fixture
def written(tmp_path):
    def write(text, name="settings.json"):
        file = tmp_path / name
        file.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return file

    return write


def test_the_defaults_are_those_of_the_seeds_but_for_what_is_recalled():
    settings = Settings()
    assert (settings.retain_turns, settings.replay_turns, settings.idle) == (50, 20, timedelta(hours=1))
    assert (settings.soft_tokens, settings.hard_tokens) == (1_800, 3_500)
    assert settings.layer_limits == {"episodic": 12, "semantic": 10, "procedural": 4}
    assert (settings.recall_limit, settings.fallback_limit, settings.working_top_k) == (12, 5, 6)
    assert settings.default_ttl == timedelta(minutes=5)
    assert (settings.promotion_min_confidence, settings.decay_days, settings.retention_days) == (0.75, 30, 90)


@pytest.mark.parametrize("example", [GOLEMCORE, ROCKBOT, {"agents": {"defaults": {"memory_window": 50}}}])
def test_the_seeds_own_examples_are_read_and_say_what_is_the_default(written, example):
    golemcores = Settings(semantic_top_k=6, episodic_top_k=8, compaction_tokens=50_000)
    usual = golemcores if example is GOLEMCORE else Settings()
    assert Settings.load(written(example)) == usual


@pytest.mark.parametrize(
    ("path", "value", "name", "set_to"),
    [
        ("memory.enabled", False, "memory_enabled", False),
        ("memory.recentDays", 3, "recent_days", 3),
        ("memory.softPromptBudgetTokens", 900, "soft_tokens", 900),
        ("memory.maxPromptBudgetTokens", 9_000, "hard_tokens", 9_000),
        ("memory.workingTopK", 1, "working_top_k", 1),
        ("memory.episodicTopK", 2, "episodic_top_k", 2),
        ("memory.semanticTopK", 3, "semantic_top_k", 3),
        ("memory.proceduralTopK", 9, "procedural_top_k", 9),
        ("memory.promotionEnabled", False, "promotion_enabled", False),
        ("memory.promotionMinConfidence", 0.5, "promotion_min_confidence", 0.5),
        ("memory.decayEnabled", False, "decay_enabled", False),
        ("memory.decayDays", 60, "decay_days", 60.0),
        ("memory.codeAwareExtractionEnabled", False, "code_aware_extraction", False),
        ("memory.legacyDailyNotesEnabled", False, "daily_notes", False),
        ("compaction.enabled", False, "compaction_enabled", False),
        ("compaction.maxContextTokens", 9_000, "compaction_tokens", 9_000),
        ("compaction.keepLastMessages", 5, "compaction_keep", 5),
        ("MemoryOptions.BasePath", "facts", "base_path", "facts"),
        ("AgentProfileOptions.BasePath", "bot", "profile_path", "bot"),
        ("WorkingMemoryOptions.DefaultTtlMinutes", 10, "default_ttl_minutes", 10.0),
        ("WorkingMemoryOptions.MaxEntriesPerSession", 9, "max_entries", 9),
        ("ConversationMemoryOptions.MaxTurnsPerSession", 100, "retain_turns", 100),
        ("ConversationMemoryOptions.SessionIdleTimeout", "02:30:00", "idle_minutes", 150.0),
        ("MaxLlmContextTurns", 10, "replay_turns", 10),
        ("DreamOptions.DirectivePath", "mine.md", "dream_directive", "mine.md"),
        ("DreamOptions.PreferenceDirectivePath", "p.md", "preference_directive", "p.md"),
        ("DreamOptions.PreferenceInferenceEnabled", False, "preference_inference", False),
        ("agents.defaults.memory_window", 0, "memory_window", 0),
    ],
)
def test_a_name_of_the_seeds_sets_one_setting_and_no_other(written, path, value, name, set_to):
    data = value
    for part in reversed(path.split(".")):
        data = {part: data}
    assert Settings.load(written(data)) == dataclasses.replace(Settings(), **{name: set_to})


def test_a_base_path_in_the_profile_is_not_the_one_of_memory(written):
    settings = Settings.load(written({"profile": {"basePath": "bot"}, "memory": {"basePath": "facts"}}))
    assert (settings.profile_path, settings.base_path) == ("bot", "facts")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.yaml", "memory:\n  softPromptBudgetTokens: 900\nreplay_turns: 7\n"),
        ("s.yml", "soft-tokens: 900\nreplayTurns: 7\n"),
        ("s.toml", "ReplayTurns = 7\n[memory]\nsoft_tokens = 900\n"),
        ("s.json", '{"replay_turns": 7, "memory": {"softTokens": 900}}'),
    ],
)
def test_a_file_may_be_yaml_toml_or_json_and_its_names_in_any_case(written, name, text):
    assert Settings.load(written(text, name)) == Settings(soft_tokens=900, replay_turns=7)


def test_the_environment_holds_against_the_file_and_an_argument_against_both(written):
    file = written({"replay_turns": 1, "recall_limit": 2, "fallback_limit": 3})
    environ = {
        "REVERIE_RECALL_LIMIT": "4",
        "REVERIE_FALLBACK_LIMIT": "5",
        "PATH": "/bin",
        "REVERIE_STORE": "/x",
    }
    settings = Settings.load(file, environ, fallback_limit=6)
    assert (settings.replay_turns, settings.recall_limit, settings.fallback_limit) == (1, 4, 6)


def test_nothing_is_read_that_is_not_handed_in(monkeypatch):
    monkeypatch.setenv("REVERIE_REPLAY_TURNS", "3")
    assert Settings.load() == Settings()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("REPLAY_TURNS", " 7 ", ("replay_turns", 7)),
        ("MAX_TURNS_PER_SESSION", "7", ("retain_turns", 7)),
        ("PROMOTION_MIN_CONFIDENCE", ".5", ("promotion_min_confidence", 0.5)),
        ("DECAY_ENABLED", "No", ("decay_enabled", False)),
        ("MEMORY_ENABLED", "0", ("memory_enabled", False)),
        ("IDLE_MINUTES", "90s", ("idle_minutes", 1.5)),
        ("IDLE_MINUTES", "2", ("idle_minutes", 2.0)),
        ("RETENTION_DAYS", "2w", ("retention_days", 14.0)),
        ("DEFAULT_TTL_MINUTES", "none", ("default_ttl_minutes", None)),
        ("BASE_PATH", "/data/memory", ("base_path", "/data/memory")),
    ],
)
def test_a_variable_is_read_as_what_its_setting_is(name, text, value):
    settings = Settings.load(environ={f"REVERIE_{name}": text})
    assert getattr(settings, value[0]) == value[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"softPromptBudget": 3},
         r"^softPromptBudget in '.*s.json' is no setting: did you mean 'soft_prompt_budget_tokens'\?$"),
        ({"memory": {"recentDay": 3}}, r"^memory.recentDay in .* did you mean 'recent_days'\?$"),
        ({"settings": 1}, r"^settings in .* is no setting: see `reverie.Settings` for the names there are$"),
        ({"memori": {}}, r"^memori in .* is no section: did you mean 'memory'\?$"),
        ({"enabled": True}, "^enabled in .* is no setting"),
        ({"zzz": 1}, "see `reverie.Settings` for the names there are$"),
        ({"recentDays": "7"},
         r"^recentDays in .* \(recent_days\) is '7': it must be a whole number from 0 to 365$"),
        ({"replay_turns": 0}, "^replay_turns in .* is 0: it must be a whole number from 1 to 10,000$"),
        ({"replay_turns": True}, "is True: it must be a whole number"),
        ({"replay_turns": 2.5}, "is 2.5: it must be a whole number"),
        ({"decay_enabled": "false"}, "is 'false': it must be true or false$"),
        ({"idle_minutes": 0}, "it must be a number of minutes, or text such as '90s' or '1h30m', over 0"),
        ({"idle_minutes": "soon"}, "is 'soon'"),
        ({"default_ttl_minutes": -1}, "or none$"),
        ({"base_path": " "}, "it must be text that is not blank$"),
        ({"memory": 3}, "^memory in .* is no setting"),
        ({"soft_tokens": {"x": 1}}, "it must be a whole number"),
        ({"soft_tokens": 4_000},
         "^soft_tokens is 4000 and hard_tokens is 3500: lower"),
        ({"soft_tokens": 10, "memory": {"softPromptBudgetTokens": 20}},
         "^soft_tokens and memory.softPromptBudgetTokens in .* both set soft_tokens: leave one of them out$"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_file_is_named_with_its_place_and_a_remedy(written, given, message):
    with pytest.raises(InvalidInput, match=message):
        Settings.load(written(given))


@pytest.mark.parametrize("schedule", ["at three", "x y", "0 3 * *", "0 0 30 2 *"])
def test_a_schedule_that_cron_does_not_know_is_refused_at_once(schedule):
    with pytest.raises(InvalidInput, match=r"dream_schedule is .*: write five fields"):
        Settings(dream_schedule=schedule)


def test_what_is_wrong_in_the_environment_is_named_as_it_stands_there():
    with pytest.raises(InvalidInput, match=r"^REVERIE_RECALL_LIMITS in the environment .* 'recall_limit'\?$"):
        Settings.load(environ={"REVERIE_RECALL_LIMITS": "3"})
    with pytest.raises(InvalidInput, match=r"^REVERIE_RECALL_LIMIT in the environment .*is 'many'"):
        Settings.load(environ={"REVERIE_RECALL_LIMIT": "many"})
    with pytest.raises(InvalidInput, match="REVERIE_SOFT_TOKENS and REVERIE_SOFT_PROMPT_BUDGET_TOKENS"):
        Settings.load(environ={"REVERIE_SOFT_TOKENS": "1", "REVERIE_SOFT_PROMPT_BUDGET_TOKENS": "1"})


def test_what_is_wrong_in_the_arguments_is_named():
    for build, options, says in [
        (Settings.load, {"recal_limit": 3}, r"^recal_limit in the arguments is no setting: did you mean"),
        (Settings, {"hard_tokens": -1}, "hard_tokens in Settings is -1"),
        (Settings, {"soft_tokens": 10, "hard_tokens": 5}, "^soft_tokens is 10 and hard_tokens is 5"),
        (Settings, {"maxTurnsPerSession": 5}, "^maxTurnsPerSession in Settings is 'retain_turns' here: use"),
        (Settings, {"recal_limit": 5}, "^recal_limit in Settings is no setting: did you mean 'recall_limit'"),
        (Settings, {"zzzz": 5}, "^zzzz in Settings is no setting: see"),
    ]:
        with pytest.raises(InvalidInput, match=says):
            build(**options)


def test_settings_are_passed_by_name():
    with pytest.raises(InvalidInput, match="pass each by its name"):
        Settings(5)
    assert dataclasses.replace(Settings(retain_turns=7), recall_limit=3).retain_turns == 7
    assert pickle.loads(pickle.dumps(Settings(retain_turns=7))) == Settings(retain_turns=7)


def test_a_file_that_cannot_be_read_or_understood_is_named(written, tmp_path):
    for name, text in [
        ("s.json", "{"),
        ("s.json", "[1]"),
        ("s.json", '{"a": 1, "a": 2}'),
        ("s.toml", "= 3"),
        ("s.yaml", "a: [1"),
        ("s.ini", "a = 1"),
        ("s.json", "[" * 200_000),
        ("s.toml", f"a = {'[' * 100_000}"),
        ("s.yaml", "[" * 20_000),
        ("s.json", " " * 1_000_001),
    ]:
        with pytest.raises(InvalidInput, match=name):
            Settings.load(written(text, name))
    (tmp_path / "s.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="cannot be read"):
        Settings.load(tmp_path / "s.json")
    with pytest.raises(NotFound, match=r"nowhere\.toml"):
        Settings.load(tmp_path / "nowhere.toml")


def test_yaml_without_pyyaml_says_how_to_install_it(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[yaml\]'"):
        Settings.load(written("a: 1", "s.yaml"))


def test_a_relative_path_lies_under_the_profile_and_that_under_the_application():
    for profile, base, memory in [
        ("agent", "memory", "/app/agent/memory"),
        ("/data/agent", "memory", "/data/agent/memory"),
        ("agent", "/data/memory", "/data/memory"),
    ]:
        paths = Settings(profile_path=profile, base_path=base).resolve_paths(Path("/app"))
        assert paths.memory == Path(memory)
        assert paths.dream == paths.profile / "dream.md"
        assert paths.preference_dream == paths.profile / "pref-dream.md"


def test_every_setting_is_documented():
    documented = Settings.__doc__
    for field in dataclasses.fields(Settings):
        assert f"\n        {field.name}: " in documented
