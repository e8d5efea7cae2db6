"""What a run wrote of itself stands when a later one is refused, or only acts."""

import json
from pathlib import Path

from tests.support.runs import config, train

PLAYER = "fake:basic?link=memory"


def test_a_resume_that_is_refused_leaves_the_record_of_the_run_as_it_was(tmp_path: Path) -> None:
    done = train(tmp_path, "r", str(config(tmp_path, max_steps=300)), "--env", PLAYER, "--seed", "1")
    assert done.code == 0, done.text
    before, configuration = done.summary, (done.folder / "configuration.yaml").read_bytes()
    written_ns = (done.folder / "configuration.yaml").stat().st_mtime_ns
    wider = config(tmp_path, max_steps=600, hidden_units=48, name="wider.yaml")
    refused = train(tmp_path, "r", str(wider), "--env", PLAYER, "--resume")
    assert (refused.code, "does not fit" in refused.text) == (2, True), refused.text
    after = refused.summary
    told_anew = {"exit_reason", "elapsed_s"}
    assert {key: after[key] for key in after if key not in told_anew} == {
        key: before[key] for key in before if key not in told_anew
    }
    assert (refused.folder / "configuration.yaml").read_bytes() == configuration
    assert (refused.folder / "configuration.yaml").stat().st_mtime_ns == written_ns, "it was never touched"


def test_inference_keeps_what_the_training_had_to_say_of_itself(tmp_path: Path) -> None:
    done = train(tmp_path, "r", str(config(tmp_path, max_steps=300)), "--env", PLAYER, "--seed", "1")
    assert done.code == 0, done.text
    before = done.summary
    longer = str(config(tmp_path, max_steps=400, name="longer.yaml"))
    acted = train(tmp_path, "r", longer, "--env", PLAYER, "--resume", "--inference")
    assert acted.code == 0, acted.text
    assert acted.summary["policy_sha256"] == before["policy_sha256"]
    assert json.loads((acted.folder / "training_summary.json").read_text()) == before


def test_inference_with_the_weights_of_another_run_acts_with_them(tmp_path: Path) -> None:
    trained = train(tmp_path, "r", str(config(tmp_path, max_steps=8000)), "--env", PLAYER, "--seed", "1")
    assert trained.code == 0, trained.text
    words = (str(config(tmp_path, max_steps=2000)), "--env", PLAYER, "--initialize-from", "r", "--inference")
    acted = train(tmp_path, "acting", *words)
    assert acted.code == 0, acted.text
    earned, earned_before = (each.summary["mean_reward"]["Basic"] for each in (acted, trained))
    assert earned_before > 0.5  # random weights earn 0.1 or less
    assert earned > earned_before - 0.1


def test_weights_of_a_run_that_does_not_know_the_behavior_are_missed_aloud(tmp_path: Path) -> None:
    assert train(tmp_path, "r", str(config(tmp_path, max_steps=300)), "--env", PLAYER).code == 0
    constant = str(config(tmp_path, "Constant", max_steps=100, name="constant.yaml"))
    words = (constant, "--env", "fake:constant?link=memory", "--initialize-from", "r")
    begun = train(tmp_path, "new", *words)
    assert begun.code == 0, begun.text
    assert "knows 'Basic', and not this one; it begins with random weights" in begun.text
    acted = train(tmp_path, "acting", *words, "--inference")
    assert (acted.code, "inference needs trained weights" in acted.text) == (2, True), acted.text
