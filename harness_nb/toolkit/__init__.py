"""Tools that ship with the harness. Book chapters 4 and 11."""
