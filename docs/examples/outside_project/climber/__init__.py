"""A trainer for small worlds with one discrete branch."""
