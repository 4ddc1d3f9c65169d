"""What a user may change: `settings` (the schema), `default.yaml` (every key), `prompts/` (texts as files)."""
