"""Lines for people and for those who search logs; light, because the TrainerController starts with it."""

from __future__ import annotations

from collections.abc import Mapping


def printable(text: str) -> str:
    """The text with everything escaped that could move a cursor, break a line or cannot be encoded."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def losses_text(lost_steps: Mapping[str, int], unreported_max: int) -> str:
    """What a run has lost, in agent steps by reason; empty when it lost nothing.

    unreported_max: of steps that killed processes could no longer tell, at most.
    """
    parts = [f"{count} {printable(reason)}" for reason, count in sorted(lost_steps.items()) if count]
    if unreported_max:
        parts.append(f"at most {unreported_max} unreported")
    return f"lost agent steps: {', '.join(parts)}" if parts else ""


def progress_line(
    name: str,
    *,
    step: int,
    elapsed_s: float,
    mean_reward: float | None,
    std_reward: float | None,
    mean_group_reward: float | None = None,
    is_training: bool = True,
) -> str:
    """The line of one summary, in the form that users of ML-Agents search their logs for.

    mean_reward: of what agents earn themselves. mean_group_reward: told in place of the deviation when there is one.
    """
    start = f"[INFO] {printable(name)}. Step: {step}. Time Elapsed: {elapsed_s:0.3f} s. "
    end = "Training." if is_training else "Not Training."
    if mean_reward is None or std_reward is None:
        return f"{start}No episode was completed since last summary. {end}"
    if mean_group_reward is not None:
        return f"{start}Mean Reward: {mean_reward:0.3f}. Mean Group Reward: {mean_group_reward:0.3f}. {end}"
    return f"{start}Mean Reward: {mean_reward:0.3f}. Std of Reward: {std_reward:0.3f}. {end}"
