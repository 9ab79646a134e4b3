"""Attacks on states: what a malicious client makes of the states it holds."""
