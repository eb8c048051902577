"""Diagnosis and repair of a memory folder. Imports `admin.erasure`, `files`, `search` and `stores`."""

from reverie.admin.doctor.doctor import Doctor
from reverie.admin.doctor.findings import Diagnosis, Finding
from reverie.admin.doctor.folder_checks import diagnose_unopened, repair_unopened

__all__ = ["Diagnosis", "Doctor", "Finding", "diagnose_unopened", "repair_unopened"]
