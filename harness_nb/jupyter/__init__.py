"""The notebook's side: `%agent`, the live view of a run, and the record that it becomes."""
