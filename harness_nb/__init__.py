"""An agent harness that lives in a notebook."""
