"""One embedded Spark for all tests here, and directories that a real broker wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.broker import free_ports
from tests.spark.fleet import damage, write_fleet
from tests.spark.on_cluster import QUICKLY

SETTINGS = {**QUICKLY, "spark.sql.adaptive.enabled": "false"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark is a peer; all that use it are kept in one worker, so that it is started once."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.peer)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def s3() -> Iterator[None]:
    """A server of the S3 protocol on loopback; the environment says where, and who we are."""
    moto = pytest.importorskip("moto.server")
    [port] = free_ports(1)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    given = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        yield
    server.stop()


@pytest.fixture(scope="session")
def spark(s3: None) -> Iterator[Any]:
    """local[2], used by every command that is run in this process; its workers know of the object storage."""
    pytest.importorskip("pyspark")
    from kafkatool.spark.session import java_version, open_session

    if (java_version() or 0) < 17:
        pytest.skip("there is no Java 17 to run Spark with")
    with open_session("local[2]", SETTINGS) as session:
        yield session


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A good directory, and the same with a damaged segment and a lying index."""
    [good] = write_fleet(tmp_path_factory.mktemp("fleet"), seed=7)
    return [good, damage(good, 7)]


@pytest.fixture(scope="session")
def good(fleet: list[Path]) -> Path:
    return fleet[0]


@pytest.fixture(scope="session")
def damaged(fleet: list[Path]) -> Path:
    return fleet[1]
