"""Files: one writer, and readers of all versions."""
