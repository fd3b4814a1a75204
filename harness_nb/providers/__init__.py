"""Models behind one call: each module is a translator, a double or a layer, and nothing else. Book chapters 3 and 5."""
