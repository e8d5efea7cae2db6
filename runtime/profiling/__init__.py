"""Where the time of a run goes: samples of every process, as a table and as a flame graph (`--profile`)."""
