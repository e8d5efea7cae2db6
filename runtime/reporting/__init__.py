"""The reports of a run besides its summary: TensorBoard events, timers and the training status."""
