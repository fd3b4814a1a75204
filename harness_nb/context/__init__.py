"""What fills the context window: counted, shown, and made smaller by decisions that can be undone. Book chapters 7 to 12."""
