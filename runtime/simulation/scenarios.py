"""What is simulated and what may go wrong in it, drawn from a seed.

Every seed draws its own mixture: which kinds of faults there are and how often (none is common), the topology, sizes,
and limits shrunk so that they are met. A profile says how much may be lost, and so what must hold at the end.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from runtime.decisions.restarts import RestartLimits
from runtime.errors import UsageError
from runtime.experience.lessons import Criterion, Lesson, LessonPlan, Measure
from runtime.simulation.disk import DiskKind
from runtime.simulation.players import Scene

Profile = Literal["quiet", "troubled", "stopped", "limited", "resumed", "lossy"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
Strategy = Literal["calm", "walk", "priority"]
FaultKind = Literal[
    "player",
    "hang",
    "worker",
    "pause",
    "freeze",
    "holder",
    "crash at effect",
    "clog",
    "partition",
    "duplicate",
    "drop",
    "jump",
    "controller",
    "supervisor",
    "launcher",
]
# Nothing is lost by these.
GENTLE: tuple[FaultKind, ...] = ("clog", "partition", "duplicate", "jump", "pause")
DEADLY: tuple[FaultKind, ...] = ("player", "hang", "worker", "freeze", "holder", "crash at effect", "drop")
# These end a run by force.
ENDED_BY: Mapping[str, FaultKind] = {"controller": "controller", "supervisor": "supervisor", "launcher": "launcher"}
DISKS: tuple[DiskKind, ...] = ("good", "good", "good", "full", "slow", "failing")
MEASURES: tuple[Measure, ...] = get_args(Measure)
LESSONS_SHARE = 0.25
NO_LIMITS = RestartLimits(lifetime_max=-1, rate_max=-1)
RUN = "simulated"
# What a line may ask for: far more than is drawn, and still done within a minute.
AGENTS_MAX = 100
ENVIRONMENTS_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run: its size, its limits and its faults.

    worker_envs: number of environments of each EnvWorker. deviation: how often the scheduler leaves its order. rates:
    share of events before which a fault of a kind happens, while events are fewer than `safety_events`, and at most
    `faults_max` times. hits_the_end: faults come thick once the run is ending. restart_envs_at, stop_at: agent steps, 0
    for never. stop_event: a StopRequest comes then. update_s, save_s, start_s: durations to draw from, the first one
    being the ordinary one. disk: what is wrong with the disk that saves go to. is_lossy: any message between parts may
    be dropped, which the transport promises not to do. lessons: of parameters, the value of lesson n is n;
    resampling_interval: env steps after which all players are reset, 0 for never. crash_kind, crash_effect: the first
    part of this kind crashes after so many effects.
    """

    profile: Profile
    seed: int
    strategy: Strategy = "walk"
    deviation: float = 0.5
    is_sync: bool = True
    worker_envs: tuple[int, ...] = (1,)
    scene: Scene = Scene()
    buffer_size: int = 8
    max_steps: int = 20
    block_steps_max: int = 4
    rates: tuple[tuple[FaultKind, float], ...] = ()
    faults_max: int = 4
    hits_the_end: bool = False
    safety_events: int = 150
    restart_envs_at: int = 0
    stop_at: int = 0
    stop_event: int = 0
    checkpoint_interval: int = 10
    limits: RestartLimits = NO_LIMITS
    update_s: tuple[float, ...] = (0.0,)
    save_s: tuple[float, ...] = (0.0,)
    start_s: tuple[float, ...] = (0.0,)
    step_timeout_s: float = 2.0
    silence_s: float = 3.0
    disk: DiskKind = "good"
    is_lossy: bool = False
    has_columns: bool = False
    resumes: bool = False
    lessons: tuple[LessonPlan, ...] = ()
    resampling_interval: int = 0
    crash_kind: str = ""
    crash_effect: int = 0

    @property
    def environments(self) -> int:
        """Environments in all."""
        return sum(self.worker_envs)


def profile_of(seed: int) -> Profile:
    """The profile that a seed has when none is asked for."""
    turn: tuple[Profile, ...] = ("troubled", "quiet", "troubled", "resumed", "troubled", "stopped", "limited", "lossy")
    return turn[seed % len(turn)]


def draw(seed: int, profile: Profile | None = None) -> Scenario:
    """The scenario of a seed."""
    profile = profile_of(seed) if profile is None else profile
    rng = random.Random(f"{profile} {seed}")
    scenario = _taught(random.Random(f"lessons {profile} {seed}"), _sized(rng, seed, profile))
    if profile == "quiet":
        return replace(scenario, rates=_rates(rng, GENTLE, share=0.5), faults_max=rng.randint(1, 12))
    scenario = replace(
        scenario,
        rates=_rates(rng, (*DEADLY, *GENTLE), share=0.4) or (("player", 0.02),),
        faults_max=rng.randint(1, 5),
        hits_the_end=rng.random() < 0.3,
        restart_envs_at=rng.choice((0, 0, 0, rng.randint(2, 15))),
        disk=rng.choice(DISKS),
    )
    return _profiled(rng, scenario)


def _sized(rng: random.Random, seed: int, profile: Profile) -> Scenario:
    quick = rng.choice(((0.0,), (0.0, 0.01), (0.0, 0.01, 0.3)))
    return Scenario(
        profile=profile,
        seed=seed,
        strategy=rng.choice(("calm", "walk", "walk", "priority")),
        deviation=rng.choice((0.05, 0.2, 0.5, 1.0)),
        is_sync=rng.random() < 0.5,
        worker_envs=rng.choice(((1,), (1,), (2,), (1, 1), (1, 1), (2, 1), (1, 1, 1), (3,))),
        scene=_scene(rng),
        buffer_size=rng.randint(2, 10),
        max_steps=rng.randint(8, 24),
        block_steps_max=rng.randint(1, 5),
        safety_events=rng.choice((60, 120, 200, 400)),
        checkpoint_interval=rng.randint(3, 15),
        update_s=quick,
        save_s=quick,
        start_s=rng.choice(((0.0,), (0.0, 0.05, 0.4))),
        step_timeout_s=rng.choice((0.6, 1.5)),
        silence_s=rng.choice((2.0, 4.0)),
        has_columns=rng.random() < 0.08,
    )


def _taught(rng: random.Random, scenario: Scenario) -> Scenario:
    """With lessons, in some; of the behavior that agent 0 has from the beginning."""
    if rng.random() > LESSONS_SHARE:
        return scenario
    lessons = tuple(_plan(rng, name) for name in rng.choice((("height",), ("height",), ("height", "gap"), ())))
    # Agents that come late must have time to act.
    interval = rng.randint(5, 15) * scenario.environments
    return replace(
        scenario,
        scene=replace(scenario.scene, takes_parameters=rng.random() < 0.7),
        lessons=lessons,
        resampling_interval=rng.choice((0, 0, interval)) if lessons else interval,
    )


def _plan(rng: random.Random, parameter: str) -> LessonPlan:
    measure = rng.choice(MEASURES)
    count = rng.randint(2, 4)
    first = rng.uniform(0.05, 0.4)
    criteria = [
        Criterion(
            behavior="Walker",
            measure=measure,
            threshold=-1.0 if measure == "reward" else min(0.9, first * (number + 1)),
            min_lesson_length=rng.randint(0, 3),
            signal_smoothing=rng.random() < 0.5,
            require_reset=rng.random() < 0.5,
        )
        for number in range(count - 1)
    ]
    lessons = [
        Lesson(name=f"{number}", value=float(number), criterion=each) for number, each in enumerate([*criteria, None])
    ]
    return LessonPlan(parameter=parameter, lessons=tuple(lessons))


def _scene(rng: random.Random) -> Scene:
    agents = rng.choice((1, 1, 2, 3))
    return Scene(
        agents=agents,
        late_agents=rng.choice((0, 0, agents - 1)),
        brains=rng.choice((("Walker",), ("Walker",), ("Walker", "Runner"), ("Walker?team=0", "Walker?team=1"))),
        late_brain=rng.choice(("", "", "Late")),
        late_at=rng.randint(1, 6),
        announces=rng.random() < 0.7,
    )


def _rates(rng: random.Random, kinds: tuple[FaultKind, ...], *, share: float) -> tuple[tuple[FaultKind, float], ...]:
    chosen = [each for each in kinds if rng.random() < share]
    return tuple((each, rng.choice((0.003, 0.01, 0.03))) for each in chosen)


def _profiled(rng: random.Random, scenario: Scenario) -> Scenario:
    match scenario.profile:
        case "stopped":
            return replace(scenario, stop_event=rng.randint(1, 250))
        case "limited":
            lifetime, rate, period = rng.choice(
                ((1, -1, 60.0), (2, -1, 60.0), (-1, 1, 60.0), (-1, 1, 0.3), (-1, 2, 1.0))
            )
            limits = RestartLimits(lifetime_max=lifetime, rate_max=rate, period_s=period)
            rates = tuple((kind, 0.03) for kind, _ in scenario.rates)
            return replace(scenario, limits=limits, rates=rates, faults_max=8)
        case "resumed":
            ends = rng.choice(("stop_at", "stop", "controller", "supervisor", "launcher"))
            scenario = replace(
                scenario,
                resumes=True,
                restart_envs_at=rng.choice((0, rng.randint(1, 8))),
                checkpoint_interval=rng.randint(1, 6),
                disk=rng.choice(DISKS),
            )
            if ends == "stop_at":
                return replace(scenario, stop_at=rng.randint(1, scenario.max_steps // 2))
            if ends == "stop":
                return replace(scenario, stop_event=rng.randint(50, 120))
            return replace(scenario, rates=(*scenario.rates, (ENDED_BY[ends], 0.012)), safety_events=400)
        case "lossy":
            return replace(scenario, is_lossy=True, rates=(*scenario.rates, ("drop", 0.03)), faults_max=10)
        case _:
            return scenario


# What a line may change in a drawn scenario; smaller scenarios make smaller failures.
def with_options(scenario: Scenario, options: Mapping[str, str]) -> Scenario:
    """The scenario with these options. Raises UsageError for one that is unknown or has no such value."""
    for key, text in options.items():
        try:
            scenario = _with_option(scenario, key, text)
        except ValueError:
            raise UsageError(f"{text!r} is no value of the option {key!r}; expected {OPTIONS[key]}") from None
    return scenario


OPTIONS: Mapping[str, str] = {
    "workers": f"environments of each EnvWorker, as 2.1, at most {ENVIRONMENTS_MAX} in all",
    "agents": f"a number of agents from 1 to {AGENTS_MAX}",
    "brains": "1 for one brain that is announced and never joined by another",
    "strategy": "calm, walk or priority",
    "instant": "1 for updates, saves and starts that take no time",
    "columns": "0 or 1",
    "lessons": "0 for none, and no resampling",
}


def _with_option(scenario: Scenario, key: str, text: str) -> Scenario:
    match key:
        case "workers":
            counts = tuple(int(each) for each in text.split("."))
            if min(counts) < 1 or sum(counts) > ENVIRONMENTS_MAX:
                raise ValueError(text)
            return replace(scenario, worker_envs=counts)
        case "agents":
            if not 1 <= int(text) <= AGENTS_MAX:
                raise ValueError(text)
            return replace(scenario, scene=replace(scenario.scene, agents=int(text), late_agents=0))
        case "brains" if text == "1":
            return replace(scenario, scene=replace(scenario.scene, brains=("Walker",), late_brain="", announces=True))
        case "strategy":
            for each in get_args(Strategy):
                if each == text:
                    return replace(scenario, strategy=each)
            raise ValueError(text)
        case "instant" if text == "1":
            return replace(scenario, update_s=(0.0,), save_s=(0.0,), start_s=(0.0,))
        case "lessons" if text == "0":
            return replace(scenario, lessons=(), resampling_interval=0)
        case "columns" if text in {"0", "1"}:
            return replace(scenario, has_columns=text == "1")
        case _ if key in OPTIONS:
            raise ValueError(text)
        case _:
            raise UsageError(f"there is no option {key!r}; there are: {', '.join(OPTIONS)}")
