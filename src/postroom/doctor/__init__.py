"""`postroom doctor`: what is wrong with an outbox, its database and its broker, and the remedy."""

from postroom.doctor.examination import Subject, examine
from postroom.doctor.finding import Finding, Level, Result

__all__ = ["Finding", "Level", "Result", "Subject", "examine"]
