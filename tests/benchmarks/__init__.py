"""How fast, how big and how chatty a run is, measured side by side with what it is compared to."""
