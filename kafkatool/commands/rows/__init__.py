"""Declare the rows of each subject: keys, types, meanings, titles of columns, and how values are got."""
