"""The data vocabulary: brains, actions, steps, columns, agent ids; numpy only."""
