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

CASES = json.loads(Path(__file__).with_name("settings_cases.json").read_text(encoding="utf-8"))


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


def test_the_seeds_own_examples_are_read_and_say_what_is_the_default(written):
    golemcores = Settings(semantic_top_k=6, episodic_top_k=8, compaction_tokens=50_000)
    assert Settings.load(written(CASES["golemcore"])) == golemcores
    for example in (CASES["rockbot"], {"agents": {"defaults": {"memory_window": 50}}}):
        assert Settings.load(written(example)) == Settings()


def test_a_name_of_the_seeds_sets_one_setting_and_no_other(written):
    for path, value, name, set_to in CASES["names"]:
        data = value
        for part in reversed(path.split(".")):
            data = {part: data}
        assert Settings.load(written(data)) == dataclasses.replace(Settings(), **{name: set_to}), path


def test_a_variable_is_read_as_what_its_setting_is():
    for variable, text, (name, value) in CASES["variables"]:
        assert getattr(Settings.load(environ={f"REVERIE_{variable}": text}), name) == value, variable


def test_what_is_wrong_in_a_file_is_named_with_its_place_and_a_remedy(written):
    for given_data, message in CASES["wrong"]:
        with pytest.raises(InvalidInput, match=message):
            Settings.load(written(given_data))


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
        (Settings.load, {"recal_limit": 3}, r"^recal_limit in the arguments is not a setting: did you mean"),
        (Settings, {"hard_tokens": -1}, "hard_tokens in Settings is -1"),
        (Settings, {"soft_tokens": 10, "hard_tokens": 5}, "^soft_tokens is 10 and hard_tokens is 5"),
    ]:
        with pytest.raises(InvalidInput, match=says):
            build(**options)


def test_settings_are_passed_by_name():
    for given, named in (((5,), {}), ((), {"recal_limit": 5})):
        with pytest.raises(TypeError, match=r"positional|recal_limit"):
            Settings(*given, **named)
    assert dataclasses.replace(Settings(retain_turns=7), recall_limit=3).retain_turns == 7
    assert pickle.loads(pickle.dumps(Settings(retain_turns=7))) == Settings(retain_turns=7)


def test_a_file_that_cannot_be_read_or_understood_is_named(written, tmp_path):
    for name, text in [
        ("s.json", "{"),
        ("s.json", "[1]"),
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
    with pytest.raises(MissingExtra, match=r"pip install .*\[yaml\]"):
        Settings.load(written("a: 1", "s.yaml"))


def test_a_relative_path_lies_under_the_profile_and_that_under_the_application():
    for profile, base, memory in [
        ("agent", "memory", "/app/agent/memory"),
        ("/data/agent", "memory", "/data/agent/memory"),
        ("agent", "/data/memory", "/data/memory"),
    ]:
        paths = Settings(profile_path=profile, base_path=base).resolve_paths(Path("/app"))
        assert paths.memory == Path(memory)


def test_every_setting_is_documented():
    documented = Settings.__doc__
    for field in dataclasses.fields(Settings):
        assert f"\n        {field.name}: " in documented
