"""A program in the place of Java, which stores a class archive as Java would."""

from pathlib import Path

CONTENTS = b"classes" * 1000

PROGRAM = """#!/bin/sh
for option do
    case $option in
        -XX:SharedClassListFile=*) cp "${option#*=}" "$0.listed" ;;
        -XX:SharedArchiveFile=*) stored=${option#*=} ;;
    esac
done
echo "$@" > "$0.told"
%s
"""
STORES = 'for _ in $(seq 1000); do printf classes; done > "$stored"'


def fake_java(folder: Path, ending: str = STORES) -> Path:
    """Return a program that notes its options and its list of classes, and then stores the archive."""
    program = folder / "java"
    program.write_text(PROGRAM % ending)
    program.chmod(0o755)
    return program
