"""What keeps an agent within what its person wants: each module is a gate, a rule or a wall. Book chapters 6, 14 and 17."""
