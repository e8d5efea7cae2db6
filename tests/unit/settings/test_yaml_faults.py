"""Files that cannot be read, or hold what is not allowed: one sentence with file, line and key for each fault."""

import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import ConfigError
from runtime.settings import FaultsError, RunSettings
from runtime.settings.nodes import MapNode
from runtime.settings.yaml_reader import BYTES_MAX, read_yaml
from tests.support.settings import BASE, parse, parse_text


def faults_of(folder: Path, text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_text(folder, text)
    assert isinstance(caught.value, FaultsError)
    assert caught.value.exit_code == 2
    return str(caught.value).split("\n")


def fault_of(folder: Path, text: str | bytes) -> str:
    (fault,) = faults_of(folder, text)
    return fault


def behavior(lines: str) -> str:
    """A configuration whose behavior Bot has these lines from line 3 on."""
    return "behaviors:\n  Bot:\n" + "".join(f"    {line}\n" for line in lines.split("\n"))


def test_all_faults_of_a_file_are_reported_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = behavior("hyperparameters:\n  batch_sise: 4\n  learning_rate: -1\nmax_steps: -5\nsummary_freq: 0")
    assert faults_of(tmp_path, text + "env_settings: {num_envs: 0}\n") == [
        "trainer.yaml:4: behaviors.Bot.hyperparameters.batch_sise: unknown key; nearest: batch_size",
        (
            "trainer.yaml:5: behaviors.Bot.hyperparameters.learning_rate: -1 is not allowed; "
            "allowed: a finite number above 0"
        ),
        "trainer.yaml:6: behaviors.Bot.max_steps: -5 is not allowed; allowed: an integer of at least 1",
        "trainer.yaml:7: behaviors.Bot.summary_freq: 0 is not allowed; allowed: an integer of at least 1",
        "trainer.yaml:8: env_settings.num_envs: 0 is not allowed; allowed: an integer from 1 to 1024",
    ]


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        ("max_steps: -5", "-5"),
        ("summary_freq: 0", "0"),
        ("max_steps: many", "many"),
        ("max_steps: 010", "010"),
        ("max_steps: 1e9999", "1e9999"),
        ("max_steps: .inf", ".inf"),
        ("max_steps:", "nothing"),
        ("max_steps: [1]", "a list"),
        ("max_steps: {a: 1}", "a block of keys"),
        ("hyperparameters: {epsilon: 1e400}", "1e400"),
        ("hyperparameters: {num_epoch: 0}", "0"),
        ("hyperparameters: {batch_size: 12.7}", "12.7"),
        ("hyperparameters: {learning_rate: -1}", "-1"),
        ("hyperparameters: {learning_rate: .nan}", ".nan"),
        ("hyperparameters: {learning_rate: 1e-400}", "1e-400"),
        ("hyperparameters: {lambd: 1.01}", "1.01"),
        ("hyperparameters: {beta_schedule: linaer}", "linaer"),
        ("reward_signals: {extrinsic: {gamma: 2}}", "2"),
        ("reward_signals: {extrinsic: 1}", "1"),
        ("network_settings: {vis_encode_type: nature}", "nature"),
        ("network_settings: {normalize: perhaps}", "perhaps"),
        ("keep_checkpoints: 0", "0"),
        ("trainer_type: pppo", "pppo"),
        ("init_path: none", "none"),
        ("hyperparameters: 5", "5"),
    ],
)
def test_a_value_outside_of_what_is_allowed_is_shown_with_it(tmp_path: Path, lines: str, value: str) -> None:
    fault = fault_of(tmp_path, behavior(lines))
    assert fault.startswith("trainer.yaml:3: behaviors.Bot.")
    assert f": {value} is not allowed; allowed: " in fault


def test_a_buffer_smaller_than_a_batch_is_refused(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, behavior("hyperparameters:\n  buffer_size: 10\n  batch_size: 100"))
    assert fault == (
        "trainer.yaml:4: behaviors.Bot.hyperparameters.buffer_size: buffer_size 10 is smaller than batch_size 100: "
        "no batch fills; allowed: a buffer_size of at least batch_size"
    )


def test_a_horizon_longer_than_the_buffer_is_a_warning(tmp_path: Path) -> None:
    settings = parse_text(tmp_path, behavior("time_horizon: 200\nhyperparameters: {buffer_size: 128, batch_size: 32}"))
    (warning,) = settings.warnings
    assert warning.startswith("trainer.yaml:3: behaviors.Bot.time_horizon: time_horizon 200 is larger than buffer_size")


def test_threaded_says_that_it_has_no_effect(tmp_path: Path) -> None:
    (warning,) = parse_text(tmp_path, behavior("threaded: true")).warnings
    assert warning.startswith("trainer.yaml:3: behaviors.Bot.threaded: threaded has no effect here")


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ("trainer_type: sac\nhyperparameters: {tau: 0.005, init_entcoef: 1.0}", "sac"),
        ("trainer_type: poca", "poca"),
        ("self_play: {save_steps: 20000}", "self_play"),
        ("reward_signals: {gail: {demo_path: x}}", "gail"),
        ("reward_signals: {extrinsic: {gamma: 0.9}, gail: {strength: 0.1}}", "gail"),
        ("reward_signals: {rnd: {}}", "rnd"),
        ("hyperparameters: {tau: 0.005}", "tau"),
    ],
)
def test_what_is_not_supported_yet_is_refused_by_name(tmp_path: Path, lines: str, name: str) -> None:
    fault = fault_of(tmp_path, behavior(lines))
    assert f"{name} " in fault
    assert "not supported yet" in fault


def test_null_switches_off_what_is_not_supported(tmp_path: Path) -> None:
    lines = "self_play: null\nbehavioral_cloning: ~\nnetwork_settings: {memory: null}\n"
    lines += "reward_signals: {gail: null, extrinsic: {}}"
    assert parse_text(tmp_path, behavior(lines)).warnings == ()


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("[1, 2]", "a list is not allowed"),
        ("big", "big is not allowed; allowed: a finite number"),
        ("{sampler_parameters: {value: 1}}", "sampler_type is missing"),
        ("{sampler_type: normal}", "normal is not allowed; allowed: one of constant, uniform"),
        ("{sampler_type: uniform, sampler_parameters: {min: 1}}", "unknown key; nearest: min_value"),
        ("{sampler_type: uniform, sampler_parameters: {min_value: 2}}", "min_value 2 is above max_value 1"),
        ("{sampler_type: multirangeuniform, sampler_parameters: {intervals: [[1, 0]]}}", "a list is not allowed"),
        ("{sampler_type: multirangeuniform, sampler_parameters: {intervals: []}}", "a list is not allowed"),
        ("{sampler_type: gaussian, sampler_parameters: {st_dev: -1}}", "-1 is not allowed"),
    ],
)
def test_a_bad_environment_parameter_is_refused(tmp_path: Path, parameter: str, words: str) -> None:
    fault = fault_of(tmp_path, f"{BASE}environment_parameters:\n  size: {parameter}\n")
    assert fault.startswith("trainer.yaml:13: environment_parameters.size")
    assert words in fault


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("reward_signals: {curiosity: {strenght: 0.1}}", "reward_signals.curiosity.strenght: unknown key; nearest: st"),
        ("reward_signals: {curiosity: {learning_rate: 0}}", "curiosity.learning_rate: 0 is not allowed"),
        ("reward_signals: {curiosity: {encoding_size: 0}}", "curiosity.encoding_size: 0 is not allowed"),
        ("reward_signals: {extrinsic: {learning_rate: 1}}", "extrinsic.learning_rate: unknown key"),
        (
            "reward_signals: {curiosity: null}",
            "no reward signal to learn from; allowed: extrinsic or curiosity",
        ),
    ],
)
def test_a_bad_key_of_a_reward_signal_is_refused(tmp_path: Path, lines: str, words: str) -> None:
    assert words in fault_of(tmp_path, behavior(lines))


def test_an_unknown_reward_signal_is_refused_with_the_nearest(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, behavior("reward_signals: {extrinsc: {}}"))
    assert "trainer.yaml:3: behaviors.Bot.reward_signals.extrinsc: unknown key; nearest: extrinsic" in faults
    assert any("there is no reward signal to learn from; allowed: extrinsic" in fault for fault in faults)


def test_an_unknown_key_like_no_other_lists_the_known_ones(tmp_path: Path) -> None:
    assert "unknown key; allowed: behaviors, checkpoint_settings" in fault_of(tmp_path, BASE + "xyz: 1\n")


def test_the_same_fault_through_an_alias_is_reported_where_it_is_used(tmp_path: Path) -> None:
    faults = faults_of(tmp_path, "behaviors:\n  A: &a\n    max_steps: 0\n  B: *a\n")
    assert [fault.partition(" is not")[0] for fault in faults] == [
        "trainer.yaml:3: behaviors.A.max_steps: 0",
        "trainer.yaml:3: behaviors.B.max_steps: 0",
    ]


def test_a_fault_in_the_defaults_is_reported_once(tmp_path: Path) -> None:
    text = "default_settings: {max_steps: 0}\nbehaviors:\n  A: {}\n  B: {}\n"
    assert fault_of(tmp_path, text).startswith("trainer.yaml:1: default_settings.max_steps: 0 is not allowed")


def test_a_missing_level_with_the_behaviors_name_is_explained(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, "behaviors:\n  trainer_type: ppo\n  max_steps: 100\n")
    assert fault.startswith("trainer.yaml:1: behaviors: the level with the behavior's name is missing")


@pytest.mark.parametrize("block", ["hyperparameters: {batch_size: 8}", "reward_signals: {extrinsic: {gamma: 0.9}}"])
def test_a_block_of_a_behavior_one_level_too_high_is_explained_too(tmp_path: Path, block: str) -> None:
    assert "behaviors: the level with the behavior's name is missing" in fault_of(tmp_path, f"behaviors:\n  {block}\n")


@pytest.mark.parametrize("name", ["max_steps", "hyperparameters", "self_play", "threaded"])
def test_a_behavior_may_be_called_as_a_key_of_behaviors(tmp_path: Path, name: str) -> None:
    settings = parse_text(tmp_path, f"behaviors:\n  {name}: {{max_steps: 7}}\n")
    assert settings.settings_for(name).max_steps == 7


def test_a_behavior_that_is_not_indented_is_explained(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, "behaviors:\nBot:\n  trainer_type: ppo\n")
    assert fault == (
        "trainer.yaml:2: Bot: this block belongs to a behavior; "
        "expected it below `behaviors:`, indented by one more level"
    )


def test_a_behavior_needs_a_name(tmp_path: Path) -> None:
    assert fault_of(tmp_path, 'behaviors:\n  " ": {}\n').endswith("a behavior needs a name")


def test_arguments_of_the_player_are_a_list(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, BASE + "  env_args: --level 3\n")
    assert "env_args: --level 3 is not allowed; allowed: a list of texts" in fault


def test_a_list_at_the_top_is_refused(tmp_path: Path) -> None:
    assert "expected blocks of keys such as `behaviors:`" in fault_of(tmp_path, "- behaviors\n")


def test_a_team_in_a_name_is_refused(tmp_path: Path) -> None:
    assert "write the name without ?team=N" in fault_of(tmp_path, 'behaviors:\n  "Bot?team=0": {}\n')


def test_a_file_that_names_no_behavior_is_refused(tmp_path: Path) -> None:
    assert fault_of(tmp_path, "behaviors:\nenv_settings: {num_envs: 2}\n") == (
        "trainer.yaml: there is neither `behaviors:` nor `default_settings:`, so nothing could be trained"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n"])
def test_an_empty_file_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    fault = fault_of(tmp_path, text)
    assert fault.startswith("trainer.yaml")
    assert "empty" in fault or "expected blocks of keys" in fault


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_in_one_sentence(tmp_path: Path, encoding: str) -> None:
    fault = fault_of(tmp_path, BASE.encode(encoding))
    assert fault == "trainer.yaml:1: the file is UTF-16 or binary; expected text: save it as UTF-8"


def test_bytes_that_are_not_utf_8_are_named_with_their_line(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, b"behaviors:\n  # caf\xe9\n")
    assert fault == "trainer.yaml:2: byte 0xe9 is not UTF-8; save the file as UTF-8"


def test_a_tab_is_refused_with_its_line(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, "behaviors:\n\tBot: {}\n")
    assert fault == "trainer.yaml:2: the line is indented with a tab; YAML is indented with spaces"


def test_a_character_that_yaml_forbids_is_named_with_its_line(tmp_path: Path) -> None:
    assert fault_of(tmp_path, "behaviors:\n  B\x07t: {}\n").startswith("trainer.yaml:2: the character '\\x07'")


def test_a_key_that_stands_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, "behaviors:\n  Bot: {}\n  Other: {}\n  Bot: {}\n")
    assert fault == (
        "trainer.yaml:4: behaviors.Bot: the key stands twice in this block, first in line 2; remove one of them"
    )


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!mine", "!!set", "!!binary"])
def test_a_tag_is_refused_and_builds_nothing(tmp_path: Path, tag: str) -> None:
    assert "is a tag; tags are not used here" in fault_of(tmp_path, f"{BASE}debug: {tag} [x]\n")


def test_a_syntax_error_has_a_line_and_no_traceback(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, "behaviors:\n  Bot: {max_steps: 5\nenv_settings: 3\n")
    assert fault.startswith("trainer.yaml:")
    assert "this is not YAML" in fault


def test_a_key_must_be_a_text(tmp_path: Path) -> None:
    assert fault_of(tmp_path, "behaviors:\n  ? [a, b]\n  : {}\n") == "trainer.yaml:2: behaviors: a key must be a text"


def test_only_blocks_can_be_merged(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, "behaviors:\n  Bot:\n    <<: [3]\n")
    assert fault.endswith("`<<` takes a block, or a list of blocks")


def test_aliases_of_aliases_cannot_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(FaultsError, match=r"holds more than 20000 values once its aliases are followed"):
        read_yaml("\n".join(lines).encode(), "bomb.yaml")


def test_an_alias_inside_of_itself_is_refused() -> None:
    with pytest.raises(FaultsError, match=r"loop.yaml:1: .*an alias stands inside of what it names"):
        read_yaml(b"a: &a {b: *a}\n", "loop.yaml")


def test_brackets_nested_a_thousandfold_are_refused() -> None:
    with pytest.raises(FaultsError, match=r"deep.yaml:1: blocks are nested deeper than 40"):
        read_yaml(b"[" * 5000, "deep.yaml")


def test_a_huge_file_is_refused_unread() -> None:
    with pytest.raises(FaultsError, match=r"huge.yaml: the file is larger than 256 KiB"):
        read_yaml(b"#" * (BYTES_MAX + 1), "huge.yaml")


def test_a_missing_file_a_folder_and_an_impossible_path_are_named(tmp_path: Path) -> None:
    for path, words in [
        (str(tmp_path / "no.yaml"), "there is no such file"),
        (str(tmp_path), "this is a folder"),
        (f"{tmp_path}/a\0b", "the file cannot be read"),
        (f"{tmp_path}/{'x' * 300}", "the file cannot be read: File name too long"),
    ]:
        with pytest.raises(ConfigError, match=words):
            parse(path)


@pytest.mark.parametrize(
    "text",
    [
        codecs.BOM_UTF8 + BASE.encode(),
        BASE.replace("\n", "\r\n").encode(),
        BASE.replace("summary_freq: 200", "summary_freq: 2e2").encode(),
        BASE.replace("summary_freq: 200", "summary_freq: 2.0e2").encode(),
        BASE.replace("summary_freq: 200", "summary_freq: +2_00").encode(),
        BASE.replace("summary_freq: 200", "summary_freq: '200'").encode(),
        BASE.replace("trainer_type: ppo", "trainer_type: &kind ppo").encode(),
    ],
    ids=["byte order mark", "carriage returns", "exponent", "fraction and exponent", "underscore", "quotes", "anchor"],
)
def test_other_spellings_of_the_same_file_give_the_same_settings(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "other").mkdir()
    expected = parse_text(tmp_path, BASE)
    found = parse_text(tmp_path / "other", text)
    assert found.behaviors == expected.behaviors
    assert found.environment == expected.environment


def blocks_or_faults(raw: bytes) -> MapNode | FaultsError:
    try:
        return read_yaml(raw, "any.yaml")
    except FaultsError as error:
        return error


def settings_or_faults(folder: Path, text: str) -> RunSettings | FaultsError:
    try:
        return parse_text(folder, text)
    except FaultsError as error:
        return error


@given(st.binary(max_size=300))
def test_any_bytes_give_blocks_or_faults_and_nothing_else(raw: bytes) -> None:
    found = blocks_or_faults(raw)
    if isinstance(found, FaultsError):
        assert found.faults
        assert all(str(fault).startswith("any.yaml") for fault in found.faults)


WORDS = (
    *("behaviors", "Bot", ": ", "\n", "  ", "    ", "- ", "{", "}", "[", "]", "&a ", "*a", "<<", "!!", "'", '"', "\\x"),
    *("\\UFFFFFFFF", "|", ">", "?", "%", "1e3", "max_steps", "ppo", "trainer_type", "---\n", "\t", "=", "~"),
    *("default_settings", "\N{SNOWMAN}", "hyperparameters", "env_settings", "num_envs", "reward_signals", "runtime"),
)


@given(st.lists(st.sampled_from(WORDS), max_size=40).map("".join))
def test_any_text_made_of_yaml_gives_settings_or_faults_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    found = settings_or_faults(tmp_path_factory.getbasetemp(), text)
    if isinstance(found, FaultsError):
        assert all("\n" not in str(fault) for fault in found.faults)
    else:
        assert found.behaviors or found.default_settings is not None


def test_a_key_with_control_characters_makes_no_line_of_its_own(tmp_path: Path) -> None:
    key = r"\e[2Jx\n[INFO] fake"
    faults = faults_of(tmp_path, f'behaviors:\n  "{key}":\n    bogus: 1\n"{key}":\n  bogus: 1\n')
    assert len(faults) == 2
    assert all(each.isprintable() for each in faults), faults
    assert r"\x1b[2Jx\n[INFO] fake.bogus: unknown key" in faults[0]
