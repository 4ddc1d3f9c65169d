"""A team's databases: described, found by questions, and asked in SQL within a caller's rights. Knows no chat."""
