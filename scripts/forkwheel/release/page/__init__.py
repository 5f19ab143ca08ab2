"""The report on a set: one page for the person who has to approve it."""
