"""Dumps: every exchange of a capture in time order, written for people or for programs.

`follow` reads the capture and gives exchanges in order, `meaning` says in words what their messages hold, `tree`, `brief` and
`objects` write them.
"""
