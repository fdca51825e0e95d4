"""`kafkatool serve` from outside: who may connect, what ends a connection, and that no other is hurt."""

from __future__ import annotations

import json
import random
import re
import resource
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkatool.format.protocol.apis import APIS, BY_NAME
from kafkatool.format.protocol.frames import write_request
from tests.cli import run
from tests.kafka.librdkafka import wait_until
from tests.serving import RawClient, Served, served
from tests.serving_logs import large_log_dir
from tests.transcripts import prepare

FUZZED = 20_000


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("serve")
    prepare(directory)
    return directory / "sample"


@pytest.fixture(scope="module")
def server(sample: Path) -> Iterator[Served]:
    with Served("-v", sample, "--metrics", "127.0.0.1:0") as running:
        yield running
        assert running.stop() == 0, running.stderr()
        assert "this should not happen" not in running.stderr(), running.stderr()


def ask(server: Served) -> None:
    """Somebody else is served as if nothing had happened."""
    with server.client() as client:
        assert client.fetch("orders", 3)["records"]


# --- what is served -----------------------------------------------------------------------------------


def test_a_deleted_topic_can_be_read_under_another_name(sample: Path) -> None:
    name = next(path.name for path in sample.glob("returns-0.*"))
    with served("--rename", f"{name}=given-back", sample) as running, running.client() as client:
        assert client.fetch("given-back", 0)["records"]
        topics = client.call("metadata", 8, topics=None)["topics"]
        assert [topic["name"] for topic in topics] == ["clicks", "given-back", "orders", "payments"]


def test_internal_topics_are_served_when_they_are_asked_for(sample: Path) -> None:
    with served("--include", "internal", sample) as running, running.client() as client:
        topic = client.call("metadata", 8, topics=[{"name": "__consumer_offsets"}])["topics"][0]
        assert topic["isInternal"]
        assert len(topic["partitions"]) == 8
        assert client.fetch("__consumer_offsets", 0, partition=7)["records"]
        assert client.offset("__consumer_offsets", -1, partition=3) == 0


def test_names_from_the_wire_lead_nowhere(server: Served) -> None:
    with server.client() as client:
        for name, code in (("../sample/orders", 17), ("/etc/passwd", 17), ("..", 17), ("nowhere", 3)):
            topic = client.call("metadata", 8, topics=[{"name": name}])["topics"][0]
            assert topic["errorCode"] == code
            assert client.fetch(name, 0)["errorCode"] == 3
        assert client.fetch("orders", 3, partition=-1)["errorCode"] == 3
        assert client.fetch("orders", 3, partition=1 << 30)["errorCode"] == 3


def test_offsets_outside_of_the_log_are_told(server: Served) -> None:
    with server.client() as client:
        assert client.fetch("orders", 2)["errorCode"] == 1
        assert client.fetch("orders", 15)["errorCode"] == 1
        assert client.fetch("orders", 14)["errorCode"] == 0


def test_the_first_batch_is_whole_however_little_was_asked_for(server: Served) -> None:
    with server.client() as client:
        assert len(client.fetch("orders", 3, max_bytes=1)["records"]) > 50
        assert len(client.fetch("orders", 3, max_bytes=1 << 20, partition_max_bytes=1)["records"]) > 50


def test_writing_is_refused_in_words(server: Served) -> None:
    data = [{"name": "orders", "partitionData": [{"index": 0, "records": b"x" * 70}]}]
    with server.client() as client:
        answer = client.call("produce", 8, acks=1, timeoutMs=1000, topicData=data)
        row = answer["responses"][0]["partitionResponses"][0]
        assert (row["errorCode"], row["errorMessage"]) == (44, "kafkatool serve is read-only")
        client.send("produce", 8, acks=0, timeoutMs=1000, topicData=data)
        with pytest.raises(EOFError):
            client.receive_frame()


def test_the_cluster_is_not_the_one_of_the_disk_unless_asked(sample: Path, server: Served) -> None:
    with server.client() as client:
        assert client.call("metadata", 8, topics=[])["clusterId"] == "kafkatool-serve"
    with served("--cluster-id", "disk", sample) as running, running.client() as client:
        assert client.call("metadata", 8, topics=[])["clusterId"] == "MkU3OEVBNTcwNTJENDM2Qg"
        assert client.call("describe_cluster", 1)["clusterId"] == "MkU3OEVBNTcwNTJENDM2Qg"


def test_clients_are_told_the_advertised_address(sample: Path) -> None:
    with served("--advertise", "broker.example:1234", sample) as running, running.client() as client:
        assert client.call("metadata", 8, topics=[])["brokers"][0]["host"] == "broker.example"
        assert client.call("find_coordinator", 2, key="g")["port"] == 1234


def test_a_directory_that_grows_is_followed_up_to_the_checkpoint(tmp_path: Path) -> None:
    from tests.logs import batches, write_log

    made = batches(4)
    log = write_log(tmp_path / "logs" / "t-0", b"".join(made[:2]))
    checkpoint = tmp_path / "logs" / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 6\n")
    with served("--follow", tmp_path / "logs") as running, running.client() as client:
        assert client.offset("t", -1) == 6
        waiting = threading.Timer(0.5, lambda: _grow(log, made[2], checkpoint))
        waiting.start()
        answer = client.fetch("t", 6, max_wait_ms=60_000)
        assert answer["records"] == made[2]
        with log.open("ab") as file:
            file.write(made[3][:40])
        checkpoint.write_text("0\n1\nt 0 12\n")
        time.sleep(0.3)
        assert client.offset("t", -1) == 9


def _grow(log: Path, data: bytes, checkpoint: Path) -> None:
    with log.open("ab") as file:
        file.write(data)
    new = checkpoint.with_suffix(".tmp")
    new.write_text("0\n1\nt 0 9\n")
    new.replace(checkpoint)  # as brokers do it: nobody ever reads half of one


def test_offsets_are_kept_in_a_file(sample: Path, tmp_path: Path) -> None:
    kept = tmp_path / "offsets"
    asked = [{"name": "orders", "partitionIndexes": [0]}]
    commit = [{"partitionIndex": 0, "committedOffset": 12, "committedMetadata": "so far"}]
    with served("--offsets-file", kept, sample) as running, running.client() as client:
        row = client.call("offset_fetch", 5, groupId="billing", topics=asked)["topics"][0]["partitions"][0]
        assert row["committedOffset"] == 11, "what the disk says"
        body = {"groupId": "billing", "topics": [{"name": "orders", "partitions": commit}]}
        assert client.call("offset_commit", 7, **body)["topics"][0]["partitions"][0]["errorCode"] == 0
    with served("--offsets-file", kept, sample) as running, running.client() as client:
        row = client.call("offset_fetch", 5, groupId="billing", topics=asked)["topics"][0]["partitions"][0]
        assert (row["committedOffset"], row["metadata"]) == (12, "so far")
        assert client.call("list_groups", 2)["groups"] == [{"groupId": "billing", "protocolType": "consumer"}]


# --- who may connect ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--listen", "0.0.0.0:0"], 5),
        (["--listen", "[::]:0"], 5),
        (["--metrics", "0.0.0.0:0"], 5),
        (["--listen", "nonsense"], 2),
        (["--listen", "127.0.0.1:99999"], 2),
        (["--tls-key", "x"], 2),
        (["--tls-cert", "/nowhere"], 2),
        (["--users", "/nowhere"], 2),
        (["--include", "everything"], 2),
        (["--rename", "orders-0"], 2),
        (["--rename", "orders-0=a/b"], 2),
        (["--high-watermark", "-1"], 2),
    ],
)
def test_what_makes_no_sense_or_is_not_safe_is_refused(sample: Path, words: list[str], code: int) -> None:
    done = run("serve", *words, str(sample))
    assert done.exit_code == code
    assert done.stderr.startswith(b"kafkatool: ")


def test_tls_alone_does_not_open_an_address_to_strangers(sample: Path, certificates: Path) -> None:
    """Encryption hides what is sent; it asks nobody who they are."""
    tls = ["--tls-cert", certificates / "server.pem", "--tls-key", certificates / "server.key"]
    done = run("serve", "--list", "--listen", "0.0.0.0:0", *map(str, tls), str(sample))
    assert done.exit_code == 5
    assert b"--tls-cert alone asks nobody who they are" in done.stderr
    assert b"use --users, --tls-client-ca, or --insecure" in done.stderr
    for allowed in ([], ["--listen", "0.0.0.0:0", "--tls-client-ca", str(certificates / "ca.pem")]):
        done = run("serve", "--list", *map(str, tls), *allowed, str(sample))
        assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("lines", "number", "problem"),
    [
        ("alice:wonder\nbob:hush:hush:tx\n", 2, "3 colons"),
        ("# who\n\nhush\n", 3, "0 colons"),
        (":hush\n", 1, "no name"),
        (" bob:hush\n", 1, "blanks around it"),
        ("  # hush: more\n", 1, "blanks around it"),
        ("bob:hush\x0bhush\n", 1, "control characters in the password"),
        ("bob:hush:\n", 1, "a topic of the list is none"),
        ("bob:hush:orders,,clicks\n", 1, "a topic of the list is none"),
        ("bob:hush:or*ders\n", 1, "a topic of the list is none"),
        ("bob:hush:orders clicks\n", 1, "a topic of the list is none"),
        ("bob:hush\nal:x\nbob:hushed\n", 3, "'bob' is on line 1 already"),
        ("bob:h\xfcsh\n", None, "is not UTF-8 text"),
        ("# hush\n", None, "names nobody"),
        ("bob:\nCN=mirror::orders\n", None, "nobody could log in"),
    ],
)
def test_a_malformed_users_file_is_refused_at_the_start(
    sample: Path, tmp_path: Path, lines: str, number: int | None, problem: str
) -> None:
    users = tmp_path / "users"
    users.write_bytes(lines.encode("latin-1"))
    users.chmod(0o600)
    done = run("serve", "--list", "--users", str(users), str(sample))
    assert done.exit_code == 2
    told = done.stderr.decode()
    assert told.startswith(f"kafkatool: {users}: " + (f"line {number}: " if number else ""))
    assert problem in told
    assert "write name:password" in told or "already" in told or number is None
    assert "hush" not in told, "a password is never shown"


def test_a_private_key_that_others_can_read_is_told_of(sample: Path, certificates: Path) -> None:
    key = certificates / "server.key"
    mode = key.stat().st_mode
    try:
        key.chmod(0o644)
        with Served("--tls-cert", certificates / "server.pem", "--tls-key", key, sample) as running:
            assert running.stop() == 0
            assert "others than its owner can read this private key" in running.stderr()
    finally:
        key.chmod(mode)


@pytest.mark.parametrize(
    "change",
    [
        {"offset": "12"},
        {"offset": 1 << 63},
        {"partition": True},
        {"metadata": 5},
        {"group": None},
        {"topic": 1},
    ],
)
def test_a_malformed_file_of_offsets_is_refused_at_the_start(
    sample: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    row = {"group": "g", "topic": "orders", "partition": 0, "offset": 5, "leader_epoch": -1, "metadata": ""}
    kept = tmp_path / "offsets"
    kept.write_text(json.dumps(row) + "\n" + json.dumps({**row, **change}) + "\n")
    done = run("serve", "--offsets-file", str(kept), "--listen", "127.0.0.1:0", str(sample))
    assert done.exit_code == 2
    assert f"{kept}: line 2 is not an offset of a group" in done.stderr.decode()


def test_users_that_others_can_read_are_refused(sample: Path, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:secret\n")
    users.chmod(0o644)
    done = run("serve", "--users", str(users), str(sample))
    assert done.exit_code == 5
    assert b"chmod 600" in done.stderr


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("users") / "users"
    path.write_text("# who\nalice:wonder,land\nbob:builder:orders,pay*\nCN=kafkatool-client::orders\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and what it vouches for: a server and a client."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("tls")

    def make(*words: str) -> None:
        subprocess.run([openssl, *words], cwd=folder, check=True, capture_output=True)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    make("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2")
    for name, subject in (("server", "/CN=localhost"), ("client", "/CN=kafkatool-client")):
        make("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
        (folder / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext"]
        make("x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")
    return folder


def consumed(server: Served, topic: str, **config: object) -> int:
    """How many records librdkafka gets, with these settings."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": server.bootstrap, "group.id": "x", "enable.partition.eof": True}
    refusals: list[object] = []
    consumer = Consumer({**settings, "log_level": 0, "error_cb": refusals.append, **config})
    consumer.assign([TopicPartition(topic, 0, 0 if topic != "orders" else 3)])
    count, deadline = 0, time.monotonic() + 90
    try:
        while time.monotonic() < deadline and not refusals:
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                count += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                return count
            else:
                refusals.append(error)
        raise PermissionError(str(refusals))
    finally:
        consumer.close()


def login(mechanism: str, name: str, password: str, protocol: str = "SASL_PLAINTEXT") -> dict[str, object]:
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
    }


@pytest.mark.peer
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_only_who_logs_in_can_read(sample: Path, users: Path, mechanism: str) -> None:
    with served("--users", users, sample) as running:
        assert consumed(running, "orders", **login(mechanism, "alice", "wonder,land")) == 11
        assert consumed(running, "payments", **login(mechanism, "bob", "builder")) == 2
        for config in (login(mechanism, "alice", "wrong"), login(mechanism, "nobody", "x")):
            with pytest.raises(PermissionError):
                consumed(running, "orders", **config)


def test_readers_see_only_what_they_are_allowed(sample: Path, users: Path) -> None:
    with served("--users", users, sample) as running, running.client() as client:
        assert client.call("sasl_handshake", 1, mechanism="PLAIN")["errorCode"] == 0
        assert client.call("sasl_authenticate", 1, authBytes=b"\0bob\0builder")["errorCode"] == 0
        check_bob(client)


def check_bob(client: RawClient, allowed: tuple[str, ...] = ("orders", "payments")) -> None:
    """These topics are all that there is."""
    topics = client.call("metadata", 8, topics=None)["topics"]
    assert [topic["name"] for topic in topics] == list(allowed)
    assert client.call("metadata", 8, topics=[{"name": "clicks"}])["topics"][0]["errorCode"] == 29
    assert client.fetch("orders", 3)["records"]
    assert client.fetch("clicks", 0)["errorCode"] == 29
    asked = [{"name": "clicks", "partitions": [{"partitionIndex": 0, "timestamp": -1}]}]
    row = client.call("list_offsets", 7, topics=asked)["topics"][0]["partitions"][0]
    assert row["errorCode"] == 29
    commit = [{"name": "clicks", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}]
    answer = client.call("offset_commit", 7, groupId="g", topics=commit)
    assert answer["topics"][0]["partitions"][0]["errorCode"] == 29
    resources = [{"resourceType": 2, "resourceName": "clicks", "configurationKeys": None}]
    assert client.call("describe_configs", 3, resources=resources)["results"][0]["errorCode"] == 29


@pytest.mark.peer
def test_other_clients_log_in_too(sample: Path, users: Path) -> None:
    from kafka import KafkaConsumer

    with served("--users", users, sample) as running:
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            consumer = KafkaConsumer(
                bootstrap_servers=running.bootstrap,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism=mechanism,
                sasl_plain_username="bob",
                sasl_plain_password="builder",
            )
            assert consumer.topics() == {"orders", "payments"}
            consumer.close()


def test_nothing_is_answered_before_a_login(sample: Path, users: Path) -> None:
    with served("--users", users, sample) as running:
        with running.client() as client:
            keys = {row["apiKey"] for row in client.call("api_versions", 3)["apiKeys"]}
            assert {17, 36} <= keys
            client.send("metadata", 8, topics=None)
            with pytest.raises(EOFError):
                client.receive_frame()
        with running.client() as client:
            assert client.call("sasl_handshake", 1, mechanism="GSSAPI")["errorCode"] == 33
            with pytest.raises(EOFError):
                client.receive_frame()


def test_the_old_handshake_with_bare_tokens_works(sample: Path, users: Path) -> None:
    with served("--users", users, sample) as running, running.client() as client:
        assert client.call("sasl_handshake", 0, mechanism="PLAIN")["errorCode"] == 0
        token = b"\0bob\0builder"
        client.sock.sendall(len(token).to_bytes(4, "big") + token)
        assert client.receive_frame() == b""
        assert client.fetch("orders", 3)["records"]


@pytest.mark.peer
def test_tls_copies_every_byte_and_never_uses_sendfile(sample: Path, certificates: Path) -> None:
    words: list[str | Path] = [
        "--tls-cert",
        certificates / "server.pem",
        "--tls-key",
        certificates / "server.key",
    ]
    with Served(*words, sample) as running:
        config = {"security.protocol": "SSL", "ssl.ca.location": str(certificates / "ca.pem")}
        assert consumed(running, "orders", **config) == 11
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        plain = socket.create_connection(("127.0.0.1", running.port), timeout=60)
        with RawClient(0, sock=context.wrap_socket(plain, server_hostname="localhost")) as client:
            assert client.fetch("orders", 3)["records"]
        with running.client() as in_the_clear:
            in_the_clear.send("api_versions", 0)
            with pytest.raises((EOFError, ConnectionError)):
                # What comes back, if anything, is an alert of TLS and no answer.
                assert not in_the_clear.receive_frame()
        assert running.stop() == 0
        assert running.summary["bytes_by_sendfile"] == 0
        assert running.summary["bytes_by_copy"] > 1000


@pytest.mark.peer
def test_with_mutual_tls_a_certificate_names_the_reader(
    sample: Path, certificates: Path, tmp_path: Path
) -> None:
    names = tmp_path / "names"
    names.write_text("CN=kafkatool-client::orders\n")
    names.chmod(0o600)
    words: list[str | Path] = [
        "--tls-cert",
        certificates / "server.pem",
        "--tls-key",
        certificates / "server.key",
    ]
    words += ["--tls-client-ca", certificates / "ca.pem", "--users", names]
    authority = {"security.protocol": "SSL", "ssl.ca.location": str(certificates / "ca.pem")}
    own = {
        "ssl.certificate.location": str(certificates / "client.pem"),
        "ssl.key.location": str(certificates / "client.key"),
    }
    with served(*words, sample) as running:
        assert consumed(running, "orders", **authority, **own) == 11
        context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
        bare = socket.create_connection(("127.0.0.1", running.port), timeout=60)
        with (
            RawClient(0, sock=context.wrap_socket(bare, server_hostname="localhost")) as nobody,
            pytest.raises((EOFError, OSError)),
        ):
            nobody.call("metadata", 8, topics=None)
        context.load_cert_chain(certificates / "client.pem", certificates / "client.key")
        known = socket.create_connection(("127.0.0.1", running.port), timeout=60)
        with RawClient(0, sock=context.wrap_socket(known, server_hostname="localhost")) as client:
            check_bob(client, ("orders",))


# --- what ends a connection, and nothing else ---------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\x08\x00\x63\x00\x00\0\0\0\1",
        b"\0\0\0\x0a\x00\x01\x00\x00\0\0\0\1\xff\xff",
        b"\0\0\0\x0e\x00\x03\x00\x08\0\0\0\1\xff\xff\x7f\xff\xff\xff",
    ],
)
def test_garbage_ends_its_own_connection(server: Served, data: bytes) -> None:
    with server.client() as client:
        client.sock.sendall(data)
        with pytest.raises((EOFError, ConnectionError)):
            client.receive_frame()
    ask(server)


def test_a_request_in_single_bytes_is_answered(server: Served) -> None:
    with server.client() as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in write_request(BY_NAME["metadata"], 8, 1, "slow", {"topics": None}):
            client.sock.sendall(bytes([byte]))
        assert client.receive_frame()


def test_requests_sent_at_once_are_answered_in_order(server: Served) -> None:
    with server.client() as client:
        wanted = range(1, 200)
        client.sock.sendall(
            b"".join(write_request(BY_NAME["metadata"], 8, number, None, {"topics": []}) for number in wanted)
        )
        numbers = [int.from_bytes(client.receive_frame()[:4], "big") for _ in wanted]
        assert numbers == list(wanted)


def test_connections_above_the_limit_are_refused(sample: Path) -> None:
    with served("--max-connections-per-address", "5", sample) as running:
        held = [running.client() for _ in range(5)]
        for client in held:
            client.call("api_versions", 0)
        with running.client() as one_more, pytest.raises((EOFError, ConnectionError)):
            one_more.call("api_versions", 0)
        for client in held:
            client.call("api_versions", 0)
            client.close()
        wait_until(lambda: _is_let_in(running), "room for another")


def _is_let_in(server: Served) -> bool:
    try:
        ask(server)
    except (EOFError, ConnectionError):
        return False
    return True


def test_idle_connections_are_closed(sample: Path) -> None:
    with served("--idle-timeout", "1", sample) as running:
        with running.client() as client:
            client.call("api_versions", 0)
            with pytest.raises((EOFError, ConnectionError)):
                client.receive_frame()
        ask(running)


def test_a_reader_that_takes_nothing_holds_up_nobody_and_costs_no_memory(tmp_path: Path) -> None:
    large_log_dir(tmp_path, "big", 64 << 20)
    with served("--no-progress", tmp_path) as running:
        with running.client() as client:
            client.fetch("big", 0, max_bytes=32 << 20)
        before = running.memory
        slow = [running.client() for _ in range(20)]
        for client in slow:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            asked = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 32 << 20}
            client.send(
                "fetch",
                11,
                maxWaitMs=0,
                minBytes=1,
                maxBytes=32 << 20,
                isolationLevel=0,
                topics=[{"topic": "big", "partitions": [asked]}],
            )
        start = time.monotonic()
        with running.client() as client:
            assert len(client.fetch("big", 0, max_bytes=1 << 20)["records"]) > 1_000_000
        assert time.monotonic() - start < 30
        assert running.memory - before < 30 << 20
        for client in slow:
            client.close()


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Room for two thousand, in this process and in those that it starts: 1,024 are usual."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2048 if hard == resource.RLIM_INFINITY else min(2048, hard)
    if wanted < 2048:
        pytest.skip("no process may have so many files open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_connections_are_served(sample: Path, many_descriptors: None) -> None:
    with served(sample) as running:
        held = [running.client() for _ in range(1000)]
        for client in held:
            client.send("metadata", 8, topics=[])
        for client in held:
            client.receive("metadata", 8)
        assert running.memory < 300 << 20
        for client in held:
            client.close()


def test_it_ends_in_order_while_clients_wait(sample: Path) -> None:
    with Served(sample) as running:
        client = running.client()
        asked = {"partition": 0, "fetchOffset": 14, "partitionMaxBytes": 100}
        topics = [{"topic": "orders", "partitions": [asked]}]
        client.send("fetch", 11, maxWaitMs=30_000, minBytes=1, maxBytes=100, isolationLevel=0, topics=topics)
        wait_until(lambda: client.is_heard, "the server to have the request")
        start = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - start < 20, "it waits for no 30 seconds"
        assert client.receive("fetch", 11)["responses"][0]["partitions"][0]["errorCode"] == 0
        client.close()


def test_the_counters_can_be_read_by_prometheus(server: Served) -> None:
    ask(server)
    sent = re.compile(r'^kafkatool_serve_sent_bytes_total\{by="sendfile"\} [1-9]', re.MULTILINE)
    # A client may have its answer before that is counted.
    wait_until(lambda: bool(sent.search(counters(server))), "the bytes to be counted")
    assert re.search(r'^kafkatool_serve_requests_total\{api="fetch"\} [1-9]', counters(server), re.MULTILINE)


def counters(server: Served) -> str:
    url = f"http://127.0.0.1:{server.row['metrics_port']}/metrics"
    text: str = urllib.request.urlopen(url, timeout=60).read().decode()
    return text


# --- fuzz ---------------------------------------------------------------------------------------------


def frames(chance: random.Random) -> Iterator[bytes]:
    """Frames of every kind, for ever: random, cut short, of wrong versions, with bytes flipped."""
    good = [
        write_request(api, version, 7, "fuzz", {})
        for api in APIS.values()
        for version in range(api.versions.low, api.versions.high + 1)
    ]
    while True:
        frame = bytearray(chance.choice(good))
        match chance.randrange(6):
            case 0:
                body = chance.randbytes(chance.randrange(60))
                frame = bytearray(len(body).to_bytes(4, "big") + body)
            case 1:
                cut = frame[: chance.randrange(4, len(frame) + 1)]
                frame = bytearray((len(cut) - 4).to_bytes(4, "big") + cut[4:])
            case 2:
                frame[4:8] = chance.randbytes(4)
            case 3:
                for _ in range(chance.randrange(1, 4)):
                    frame[chance.randrange(4, len(frame))] = chance.randrange(256)
            case 4:
                extra = chance.randbytes(chance.randrange(40))
                frame[:4] = (len(frame) - 4 + len(extra)).to_bytes(4, "big")
                frame += extra
        yield bytes(frame)


def fuzz(server: Served, count: int, seed: int) -> None:
    """Several frames on each connection, in pieces of any size; then it is closed, answered or not."""
    chance = random.Random(seed)
    made = frames(chance)
    sent = 0
    while sent < count:
        several = [next(made) for _ in range(chance.randint(1, 8))]
        sent += len(several)
        data = b"".join(several)
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as sock:
            try:
                if chance.random() < 0.2:
                    for at in range(0, len(data), 7):
                        sock.sendall(data[at : at + 7])
                else:
                    sock.sendall(data)
                if chance.random() < 0.3:
                    sock.shutdown(socket.SHUT_WR)
                    sock.settimeout(0.05)
                    sock.recv(4096)
            except (OSError, TimeoutError):
                continue


def fuzzed(server: Served, count: int) -> None:
    """Whatever comes, nothing breaks, others are served, and memory does not grow with it."""
    ask(server)
    fuzz(server, 1000, 0)
    before = server.memory
    for part in range(10):
        fuzz(server, count // 10, part + 1)
        ask(server)
    assert server.memory - before < 60 << 20
    assert "this should not happen" not in server.stderr()


@pytest.mark.long
def test_twenty_thousand_frames_of_nonsense_hurt_nobody(sample: Path) -> None:
    with served(sample) as running:
        fuzzed(running, FUZZED)


@pytest.mark.soak
def test_a_million_frames_of_nonsense_hurt_nobody(sample: Path) -> None:
    with served(sample) as running:
        fuzzed(running, 1_000_000)
