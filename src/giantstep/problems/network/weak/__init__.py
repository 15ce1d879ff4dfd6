"""Small and growing steps: their fields, closed forms, and the law of their rows."""
