"""Actors that collect experience from Unity players and train policies on it; imports nothing by itself."""
