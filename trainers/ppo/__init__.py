"""Proximal policy optimisation in TensorFlow; only `engine` is imported before training starts."""
