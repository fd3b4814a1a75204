"""What makes a run last: what it may spend, and what is left of it when its process dies. Book chapters 18 to 21."""
