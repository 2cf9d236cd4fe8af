"""Bytes and their meaning.

Schemas as data, a plain codec and a columnar reader over them, records, errors.
"""
