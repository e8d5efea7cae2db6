"""The Thespian shells of the run and the actor-system base they stand on."""
