"""The object storage of the unit tests."""

from tests.unit.conftest import bucket, cloud, s3_server

__all__ = ["bucket", "cloud", "s3_server"]
