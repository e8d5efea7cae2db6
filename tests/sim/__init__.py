"""The whole system under a small seeded scheduler, with simulated players and a simulated learner."""
