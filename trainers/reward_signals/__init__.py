"""Reward signals: what an agent is rewarded for; each has a stream of values of its own.

`factory` makes them by name and needs no TensorFlow; `streams` and the models load it.
"""
