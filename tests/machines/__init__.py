"""One rule-based state machine per decision core: legal and illegal histories beside a tiny model."""
