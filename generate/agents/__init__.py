"""Agents: policies that see observations alone, and how their parameters are found."""
