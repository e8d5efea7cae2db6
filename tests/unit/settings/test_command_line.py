"""Flags: what they override, which ones are known, and what is answered without starting anything."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fakeunity.memory import open_player
from fakeunity.protocols import since
from fakeunity.scenes.catalogue import SCENES as CARDS
from fakeunity.scenes.catalogue import open_world
from fakeunity.spec import parse_url
from fakeunity.testing.tongues import heard_hello
from runtime.errors import ConfigError, UsageError
from runtime.settings import Editor, Executable, FakeScene, FaultsError
from tests.support.settings import BASE, SCENES, parse, parse_text, surroundings

FORBIDDEN_IMPORTS = ("tensorflow", "keras", "thespian", "grpc", "onnxruntime", "tensorboard")


def test_nothing_given_means_the_bundled_basic_scene() -> None:
    settings = parse()
    assert settings.environment.target == FakeScene("fake:basic")
    assert settings.bundled_scene == "basic"
    assert settings.config is None
    assert (settings.checkpoints.run_id, settings.checkpoints.run_id_given) == ("basic", False)
    assert set(settings.behaviors) == {"Basic"}


def test_other_flags_leave_the_bundled_scene_as_it_is() -> None:
    settings = parse("--seed", "3", "--num-envs", "2", "--run-id", "mine")
    assert (settings.bundled_scene, settings.environment.num_envs, settings.environment.seed) == ("basic", 2, 3)
    assert (settings.checkpoints.run_id, settings.checkpoints.run_id_given) == ("mine", True)


LISTED = "those that --help lists; flags for the player go after --env-args"


@pytest.mark.parametrize("scene", sorted(SCENES))
def test_a_scene_without_config_has_its_bundled_configuration(scene: str) -> None:
    settings = parse("--env", f"fake:{scene}?agents=8&seed=3")
    assert settings.environment.target == FakeScene(f"fake:{scene}?agents=8&seed=3")
    assert (settings.bundled_scene, settings.checkpoints.run_id) == (scene, scene)
    assert settings.warnings == ()
    brains = [each.name for each in open_world(scene, agents=1, handshake_seed=0, url_seed=0).specs if each.is_training]
    assert {settings.settings_for(brain).trainer_type for brain in brains} == {"ppo"}


@pytest.mark.parametrize("scene", [each for each in sorted(SCENES) if "API-9" in since(CARDS[each].since)])
def test_a_bundled_configuration_names_the_brains_of_old_players_too(scene: str) -> None:
    url = f"fake:{scene}?protocol=API-9"
    hello, _ = heard_hello(open_player(parse_url(url)).exchange(None))
    settings = parse("--env", url)
    named = {each.name: settings.settings_for(each.name) for each in hello.announced if each.is_training}
    assert named
    assert all(each == next(iter(named.values())) for each in named.values())


def test_the_crowd_configuration_names_the_late_behavior_too() -> None:
    assert set(parse("--env", "fake:crowd").behaviors) == {"Crowd", "CrowdLate"}


def test_the_constant_configuration_discounts_by_nine_tenths() -> None:
    assert parse("--env", "fake:constant").settings_for("Constant").reward_signals["extrinsic"].gamma == 0.9


def test_a_program_without_config_trains_any_behavior_with_the_defaults() -> None:
    settings = parse("--env", "builds/My Game.x86_64")
    assert settings.environment.target == Executable("builds/My Game.x86_64")
    assert settings.checkpoints.run_id == "ppo"
    assert settings.bundled_scene is None
    behavior = settings.settings_for("Anything")
    assert (behavior.max_steps, behavior.hyperparameters.buffer_size) == (500_000, 10_240)


def test_a_config_without_env_waits_for_the_editor_on_its_port(tmp_path: Path) -> None:
    env = parse_text(tmp_path, BASE, ()).environment
    assert (env.target, env.base_port, env.is_base_port_fixed) == (Editor(), 5004, True)


def test_the_editor_can_be_awaited_on_another_port(tmp_path: Path) -> None:
    assert parse_text(tmp_path, BASE, ("--base-port", "5005")).environment.base_port == 5005


def test_the_editor_keeps_its_port_under_a_file_that_names_the_default_of_players(tmp_path: Path) -> None:
    assert parse_text(tmp_path, f"{BASE}  base_port: 5005\n", ()).environment.base_port == 5004


def test_a_player_takes_any_free_port_unless_one_is_given(tmp_path: Path) -> None:
    free, given = parse_text(tmp_path, BASE).environment, parse("--base-port", "6000").environment
    assert (free.base_port, free.is_base_port_fixed) == (5005, False)
    assert (given.base_port, given.is_base_port_fixed) == (6000, True)


def test_the_command_line_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    text = BASE + "  num_envs: 3\n  timeout_wait: 20\nengine_settings: {time_scale: 5}\n"
    settings = parse_text(tmp_path, text, ("--env", "fake:basic", "--num-envs", "4"))
    assert settings.environment.num_envs == 4
    assert settings.environment.timeout_wait_s == 20
    assert (settings.engine.time_scale, settings.engine.width) == (5, 84)


def test_one_call_leaves_nothing_behind_for_the_next(tmp_path: Path) -> None:
    before = parse_text(tmp_path, BASE)
    parse_text(tmp_path, BASE, ("--env", "fake:basic", "--num-envs", "4", "--resume", "--seed", "9"))
    assert parse_text(tmp_path, BASE) == before


def test_a_step_may_have_a_limit_of_its_own() -> None:
    env = parse("--timeout-wait", "20", "--step-timeout", "2").environment
    assert (env.timeout_wait_s, env.step_timeout_s) == (20, 2)


def test_a_step_has_the_limit_of_the_start_unless_told_otherwise() -> None:
    assert parse("--timeout-wait", "20").environment.step_timeout_s == 20


def test_players_may_send_messages_of_any_length_but_nothing_that_is_not_finite_unless_told_otherwise() -> None:
    plain = parse().environment
    assert (plain.message_bytes_max, plain.not_finite, plain.port_argument) == (-1, "refuse", "both")
    told = parse("--message-bytes-max", "9", "--not-finite", "zero", "--port-argument", "port").environment
    assert (told.message_bytes_max, told.not_finite, told.port_argument) == (9, "zero", "port")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_given_seed_is_honoured_zero_too(seed: int) -> None:
    env = parse("--seed", str(seed)).environment
    assert (env.seed, env.seed_given) == (seed, True)


def test_a_seed_of_minus_one_is_drawn_and_known_as_drawn(tmp_path: Path) -> None:
    drawn = {parse("--seed", "-1", around=surroundings(seed=n)).environment for n in range(5)}
    assert len({env.seed for env in drawn}) > 1
    assert all(env.seed >= 0 and not env.seed_given for env in drawn)
    overridden = parse_text(tmp_path, BASE, ("--env", "fake:basic", "--seed", "-1")).environment
    assert not overridden.seed_given


def test_restart_limits_have_our_defaults_and_take_minus_one_for_no_limit() -> None:
    plain = parse().environment.restarts
    assert (plain.lifetime, plain.rate_n, plain.rate_period_s) == (10, 3, 60)
    free = parse("--max-lifetime-restarts", "-1", "--restarts-rate-limit-n", "-1").environment.restarts
    assert (free.lifetime, free.rate_n) == (-1, -1)


def test_the_rest_of_the_line_belongs_to_the_player() -> None:
    env = parse("--num-envs", "2", "--env-args", "--num-envs", "9", "--help", "-x", "", "--").environment
    assert env.env_args == ("--num-envs", "9", "--help", "-x", "", "--")
    assert env.num_envs == 2


def test_no_arguments_for_the_player_can_be_written_as_null_and_empty_ones_too(tmp_path: Path) -> None:
    assert parse_text(tmp_path, BASE + "  env_args: null\n").environment.env_args == ()
    assert parse_text(tmp_path, BASE + "  env_args: ['', ~]\n").environment.env_args == ("", "")


def test_a_scene_without_bundled_configuration_trains_with_the_defaults() -> None:
    around = replace(surroundings(), scenes=frozenset({"recall"}))
    settings = parse("--env", "fake:recall", around=around)
    assert (settings.bundled_scene, settings.checkpoints.run_id) == (None, "ppo")
    assert settings.settings_for("Recall").max_steps == 500_000


def test_keys_of_old_flags_in_a_file_are_understood(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, BASE + "checkpoint_settings: {load_model: true, train_model: true}\n")
    assert settings.checkpoints.resume
    assert settings.warnings == (
        "trainer.yaml:12: checkpoint_settings.train_model: train_model has no effect: training is the default",
    )


def test_the_command_line_replaces_the_arguments_of_the_file(tmp_path: Path) -> None:
    text = BASE + "  env_args: [--level, 3]\n"
    assert parse_text(tmp_path, text).environment.env_args == ("--level", "3")
    assert parse_text(tmp_path, text, ("--env-args", "--level", "4")).environment.env_args == ("--level", "4")


@pytest.mark.parametrize(
    ("num_envs", "asked", "workers"),
    [("8", (), 2), ("1", (), 1), ("8", ("--workers", "5"), 5), ("2", ("--workers", "5"), 2)],
)
def test_workers_are_one_per_player_or_core_unless_asked_for(
    num_envs: str, asked: tuple[str, ...], workers: int
) -> None:
    assert parse("--num-envs", num_envs, *asked).workers == workers


def test_more_workers_than_players_are_said_not_to_start() -> None:
    (warning,) = parse("--workers", "5").warnings
    assert "5 workers" in warning
    assert "1 are started" in warning


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("--num-env", "command line: --num-env: unknown flag; nearest: --num-envs"),
        ("--run_id=x", "command line: --run_id: unknown flag; nearest: --run-id"),
        ("--xyzzy", f"command line: --xyzzy: unknown flag; allowed: {LISTED}"),
    ],
)
def test_an_unknown_flag_is_refused_with_the_nearest(typed: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(typed)
    assert str(caught.value) == text
    assert caught.value.exit_code == 2


def test_all_unknown_words_are_named_at_once() -> None:
    with pytest.raises(FaultsError) as caught:
        parse("a.yaml", "b.yaml", "--forse", "--resum")
    assert [fault.nearest for fault in caught.value.faults] == [None, "--force", "--resume"]
    assert "'b.yaml' is one word too many" in str(caught.value)


def test_a_flag_without_its_value_points_to_the_help() -> None:
    with pytest.raises(UsageError, match=r"command line: .*--seed.*--help lists the flags"):
        parse("--seed")


@pytest.mark.parametrize(
    ("argv", "key", "allowed"),
    [
        (("--num-envs", "0"), "--num-envs", "an integer from 1 to 1024"),
        (("--num-areas", "0"), "--num-areas", "an integer of at least 1"),
        (("--base-port", "70000"), "--base-port", "an integer from 1 to 65535"),
        (("--seed", "-2"), "--seed", "an integer from 0 to 2147483647, or -1"),
        (("--timeout-wait", "0"), "--timeout-wait", "a finite number above 0"),
        (("--timeout-wait", "nan"), "--timeout-wait", "a finite number above 0"),
        (("--max-lifetime-restarts", "-2"), "--max-lifetime-restarts", "an integer of at least 0, or -1"),
        (("--collection", "both"), "--collection", "one of sync, async"),
        (("--actor-system", "threads"), "--actor-system", "one of processes, inline"),
        (("--bind", "everywhere"), "--bind", "an IP address such as 0.0.0.0 or ::, or null"),
        (("--message-bytes-max", "0"), "--message-bytes-max", "an integer of at least 1, or -1"),
        (("--not-finite", "clamp"), "--not-finite", "one of refuse, zero"),
        (("--port-argument", "none"), "--port-argument", "one of both, mlagents-port, port"),
        (("--stop-at", "0"), "--stop-at", "an integer of at least 1, or null"),
    ],
)
def test_values_of_flags_meet_the_same_checks_as_those_of_files(argv: tuple[str, str], key: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(*argv)
    assert str(caught.value) == f"command line: {key}: {argv[1]} is not allowed; allowed: {allowed}"


def test_ports_beyond_the_last_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 environments from port 65535 on need ports above 65535"):
        parse("--base-port", "65535", "--num-envs", "2")


def test_several_environments_need_a_player_to_launch(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="2 environments need a player to launch, and there is only one Editor"):
        parse_text(tmp_path, BASE, ("--num-envs", "2"))


def test_a_scene_that_does_not_exist_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("--env", "fake:basik?seed=3")
    assert str(caught.value) == (
        f"command line: --env: basik is no bundled scene; allowed: {', '.join(sorted(SCENES))}; nearest: basic"
    )


def test_what_the_player_says_about_its_url_is_reported_with_all_else() -> None:
    def check(url: str) -> None:
        raise ValueError(f"unknown key in {url}; nearest: agents")

    with pytest.raises(FaultsError) as caught:
        parse("--env", "fake:basic?agent=3", "--num-envs", "0", around=surroundings(check_scene_url=check))
    assert [str(fault) for fault in caught.value.faults] == [
        "command line: --env: unknown key in fake:basic?agent=3; nearest: agents",
        "command line: --num-envs: 0 is not allowed; allowed: an integer from 1 to 1024",
    ]


@pytest.mark.parametrize("run_id", ["", "..", "a/b", "a\\b", "-x", ".hidden", "nul", "COM1.txt", "a\nb", "x" * 200])
def test_a_run_id_is_one_folder_name_on_every_system(run_id: str) -> None:
    with pytest.raises(ConfigError, match=r"--run-id.*is not allowed; allowed: one folder name"):
        parse(f"--run-id={run_id}")


def test_resume_and_force_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="--force: resume goes on with a run and force deletes it"):
        parse("--resume", "--force")


def test_inference_needs_a_trained_model() -> None:
    with pytest.raises(ConfigError, match="inference needs a trained model; add --resume or --initialize-from RUN_ID"):
        parse("--inference")
    assert parse("--inference", "--resume").checkpoints.inference
    assert parse("--inference", "--initialize-from", "earlier").checkpoints.initialize_from == "earlier"


def test_a_resumed_run_keeps_its_own_weights() -> None:
    settings = parse("--resume", "--initialize-from", "earlier")
    assert settings.checkpoints.initialize_from is None
    assert settings.warnings == ("initialize_from has no effect when a run is resumed: it has weights of its own",)


def test_deterministic_reaches_every_network(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, BASE + "default_settings: {}\n", ("--deterministic",))
    assert settings.deterministic
    assert settings.settings_for("Bot").network_settings.deterministic
    assert settings.settings_for("Other").network_settings.deterministic


@pytest.mark.parametrize(
    ("argv", "warning"),
    [
        (("--torch-device", "cuda"), "--torch-device: has no effect: this trainer uses TensorFlow"),
        (("--torch",), "--torch has no effect"),
        (("--tensorflow",), "--tensorflow has no effect"),
        (("--train",), "--train has no effect: training is the default"),
        (("--load",), "--load is an old name of --resume"),
        (("--bind", "0.0.0.0"), "players are served on 0.0.0.0, not only on this computer"),
    ],
)
def test_flags_without_effect_or_with_a_risk_warn(argv: tuple[str, ...], warning: str) -> None:
    (found,) = parse(*argv).warnings
    assert warning in found


def test_the_old_name_of_resume_resumes() -> None:
    assert parse("--load").checkpoints.resume


def test_every_flag_of_ml_agents_is_known() -> None:
    settings = parse(
        *("--env", "player", "--force", "--initialize-from", "a", "--deterministic", "--run-id", "b", "--seed", "1"),
        *("--base-port", "6000", "--num-envs", "2", "--num-areas", "3", "--debug", "--max-lifetime-restarts", "4"),
        *("--restarts-rate-limit-n", "5", "--restarts-rate-limit-period-s", "6", "--results-dir", "out"),
        *("--timeout-wait", "7", "--width", "8", "--height", "9", "--quality-level", "1", "--time-scale", "2"),
        *("--target-frame-rate", "3", "--capture-frame-rate", "4", "--no-graphics", "--no-graphics-monitor"),
        *("--torch-device", "cpu", "--inference", "--env-args", "--x"),
    )
    assert settings.debug
    assert settings.environment.no_graphics
    assert settings.environment.no_graphics_monitor
    assert (settings.engine.width, settings.engine.height, settings.environment.num_areas) == (8, 9, 3)
    assert settings.checkpoints.results_dir == "out"


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("--version")
    assert caught.value.code == 0
    assert "1.2.3" in capsys.readouterr().out


def test_help_names_every_flag_but_the_old_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse("--help")
    text = capsys.readouterr().out
    assert caught.value.code == 0
    assert "--restart-envs-at" in text
    assert "--env-args" in text
    assert "--load" not in text


def test_no_heavy_library_is_imported_to_read_settings() -> None:
    code = (
        "import random, sys; from runtime.settings import Surroundings, parse_run_settings; "
        "parse_run_settings([], Surroundings(scenes={'basic'}, rng=random.Random(), cores=1), version='1'); "
        f"print([name for name in {FORBIDDEN_IMPORTS} if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.strip() == "[]"
