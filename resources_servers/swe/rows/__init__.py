"""Rows of every form, as one `SweInstance`: one small adapter each, chosen by the fields that a row has.

Forms   `families` has them all, with the field that tells each: SWE-bench and its kin, R2E-Gym, SWE-smith,
        Multi-SWE-bench, NeMo-Gym's data sets, the own format. A row's `family` names one of them in plain words.
        Nemotron SWE2 (`responses_create_params.metadata.instance_dict`) holds a row of another form.
Tools   some are graded by code of their publishers (`publishers`); without it their rows are refused.
Errors  RowError: a row of two forms, of none, or with a field that its form can't use, named with what would be right.
"""

from paddock.errors import RowError, boundary
from paddock.resources_servers.swe.instance import SweInstance
from paddock.resources_servers.swe.publishers import PublisherTools
from paddock.resources_servers.swe.rows import families, nemotron
from paddock.types import Row

__all__ = ["read"]


def read(row: Row, tools: PublisherTools | None = None) -> SweInstance:
    """Read a row's instance; RowError where its form or a field is wrong."""
    with boundary(RowError, "row", stage="seed"):
        metadata = row.responses_create_params.get("metadata")
        if isinstance(metadata, dict) and metadata.get("instance_dict") is not None:
            return nemotron.read(row, tools or PublisherTools())
        return families.family_of(row.task).read(row.task, tools or PublisherTools())
