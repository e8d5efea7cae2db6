"""Behavioural cloning: demonstrations as training samples, and the update that learns from them."""
