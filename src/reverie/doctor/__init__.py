"""What is wrong with a memory, in plain words, and what can be done about it. `Memory.doctor` asks it."""

from reverie.doctor.examining import Doctor
from reverie.doctor.findings import Diagnosis, Finding
from reverie.doctor.folder import unopened

__all__ = ["Diagnosis", "Doctor", "Finding", "unopened"]
