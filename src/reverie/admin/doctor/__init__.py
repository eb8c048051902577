"""What is wrong with a memory, in plain words, and what can be done about it. `Memory.doctor` asks it."""

from reverie.admin.doctor.doctor import Doctor
from reverie.admin.doctor.findings import Diagnosis, Finding
from reverie.admin.doctor.folder_checks import diagnose_unopened

__all__ = ["Diagnosis", "Doctor", "Finding", "diagnose_unopened"]
