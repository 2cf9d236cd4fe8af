"""Bytes and their meaning: schemas as data, a plain codec and a columnar reader over them, records, errors."""
