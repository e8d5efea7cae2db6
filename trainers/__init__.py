"""Learning: PPO in TensorFlow, the model files that come out of it, and its checkpoints."""
