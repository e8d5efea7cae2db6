"""Cases that users met with agents of several players: their numbers are the same, their trajectories are not."""

from dataclasses import replace

from runtime.experience.columns import RowKind
from tests.support.experience_streams import Act, Feeder, Row, Step, small_brain, small_learner, small_settings
from trainers.learner import PPOLearner

BRAIN = small_brain()


def test_c34_agents_of_one_number_in_two_players_are_four_agents_and_a_restart_makes_new_ones() -> None:
    learner = small_learner(small_settings(), brains=[BRAIN])
    assert isinstance(learner, PPOLearner)
    players = [Feeder(learner, BRAIN, env_id=env_id) for env_id in (0, 1)]
    both = (Act(agent=1), Act(agent=2))

    def rows(env_id: int, step: int) -> tuple[Row, ...]:
        """Observations and rewards that tell environment, agent and step."""
        return tuple(
            Row(agent=agent, x=100.0 * env_id + 10.0 * agent + step, reward=1000.0 * env_id + 10.0 * agent)
            for agent in (1, 2)
        )

    for feeder in players:
        feeder.reset(*rows(feeder.env_id, 0))
        feeder.steps(Step(both, rows(feeder.env_id, 1)))
    one, two = players
    dead, alive = rows(0, 2)
    one.steps(Step(both, (replace(dead, kind=RowKind.TERMINAL), alive, replace(dead, x=17.0))))
    two.steps(Step(both, rows(1, 2)))
    one.steps(Step(both, rows(0, 8)))
    two.steps(Step(both))
    two.incarnation, two.step = 1, 0
    two.reset(*rows(1, 5))
    two.steps(Step(both, rows(1, 6)))

    behavior = learner._behaviors["Walker"]
    columns = behavior.complete_buffer().columns()
    found: dict[tuple[int, int, int], list[float]] = {}
    for env, life, agent, x, reward in zip(
        *(columns[name].tolist() for name in ("env", "incarnation", "agent")),
        columns["observations"][:, 0].tolist(),
        columns["rewards"].tolist(),
        strict=True,
    ):
        assert reward == 1000.0 * env + 10.0 * agent
        found.setdefault((env, life, agent), []).append(x)
    assert found == {
        (0, 0, 1): [10.0, 11.0, 17.0],
        (0, 0, 2): [20.0, 21.0, 22.0],
        (1, 0, 1): [110.0, 111.0],
        (1, 0, 2): [120.0, 121.0],
        (1, 1, 1): [115.0],
        (1, 1, 2): [125.0],
    }
    assert [each[1:] for each in behavior.episodes.recent] == [(20.0, 2)], "only the agent that died ended an episode"
