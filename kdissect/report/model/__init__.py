"""What reports say, as values: dataclasses that renderers show, and that JSON carries under the names of their attributes."""
