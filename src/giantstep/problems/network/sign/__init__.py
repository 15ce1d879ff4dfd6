"""The sign step, the first step of Adam: its field, the law of its rows."""
