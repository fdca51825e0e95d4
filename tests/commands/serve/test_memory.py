"""How much memory strangers can make `kafkatool serve` take: the worst that can be asked, by many, for long.

The bound is what the process takes when it is idle, --max-memory, and a tenth of that for what an allocator
cannot give back. It is measured on the process itself: the most that it ever had in memory.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from kafkatool.format.primitives import write_uvarint
from kafkatool.format.protocol.apis import APIS, BY_NAME, Api
from kafkatool.format.protocol.frames import write_request
from kafkatool.format.schema.layout import Layout, Tree
from tests.logs import batches, write_log
from tests.serving import RawClient, Served

LARGEST = 4 << 20
BUDGET = 256 << 20
ALLOCATOR = BUDGET // 10
SECONDS = 120


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number in range(3):
        write_log(tmp_path / "logs" / f"orders-{number}", b"".join(batches(5)))
    return tmp_path / "logs"


def bound(server: Served, budget: int = BUDGET) -> int:
    """Asked before anything else is."""
    ask(server)
    return server.memory + budget + ALLOCATOR


def peak(server: Served) -> int:
    """The most that the process ever had in memory."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def ask(server: Served) -> None:
    """Somebody else is served as if nothing had happened."""
    with server.client() as client:
        ask_as(client)


def ask_as(client: RawClient) -> None:
    client.sock.settimeout(SECONDS)
    assert client.fetch("orders", 0)["records"]
    assert client.call("metadata", 8, topics=[{"name": "orders"}])["topics"][0]["errorCode"] == 0


def check(server: Served, most: int) -> None:
    ask(server)
    assert peak(server) < most, f"{peak(server) >> 20} MiB"
    assert "this should not happen" not in server.stderr(), server.stderr()


def send(server: Served, frame: bytes) -> int:
    """Bytes of its answer; 0 where the connection was closed."""
    size = 0
    with suppress(EOFError, ConnectionError), server.client() as client:
        client.sock.settimeout(SECONDS)
        client.sock.sendall(frame)
        size = int.from_bytes(client._exactly(4), "big")
        left = size
        while left:
            left -= len(client._exactly(min(left, 1 << 20)))
    return size


# --- the worst of every API ---------------------------------------------------------------------------


def arrays(layout: Layout) -> Iterator[tuple[str, ...]]:
    """The ways to every array of a message."""
    for slot in layout.positional:
        if slot.field.array:
            yield (slot.name,)
            if slot.layout is not None:
                yield from ((slot.name, *inner) for inner in arrays(slot.layout))


def body_with(layout: Layout, way: tuple[str, ...], count: int) -> Tree:
    """So many elements at the end of the way, one on it."""
    slot = next(one for one in layout.positional if one.name == way[0])
    if len(way) > 1:
        assert slot.layout is not None
        return {slot.name: [body_with(slot.layout, way[1:], count)]}
    empty: object = {} if slot.layout else "" if slot.field.kind == "string" else 0
    return {slot.name: [empty] * count}


def filled(api: Api, version: int, way: tuple[str, ...], size: int = LARGEST, most: int = 1_000_000) -> bytes:
    """A frame of the size with as many elements as go into it: the second is repeated where it lies."""
    layout = api.request_layout(version)
    one, two = (write_request(api, version, 1, None, body_with(layout, way, count)) for count in (1, 2))
    width = len(two) - len(one)
    at = next(index for index in range(4, len(one)) if one[index] != two[index])
    count = min(most, (size - len(one)) // width)
    is_flexible = api.is_flexible(version)
    front = (
        two[4:at] + write_uvarint(count + 1) if is_flexible else two[4 : at - 3] + count.to_bytes(4, "big")
    )
    frame = front + two[at + 1 : at + 1 + width] * count + two[at + 1 + 2 * width :]
    return len(frame).to_bytes(4, "big") + frame


def worst_frames(size: int = LARGEST) -> list[tuple[str, bytes]]:
    """As many elements as possible, for every array of every API in its first and its last version."""
    return [
        (f"{api.name} {version} {'.'.join(way)}", filled(api, version, way, size))
        for api in APIS.values()
        for version in sorted({api.versions.low, api.versions.high})
        for way in arrays(api.request_layout(version))
    ]


def named_frames(count: int) -> list[tuple[str, bytes]]:
    """Names that exist, again and again, and such as differ."""
    orders = {"name": "orders"}
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    differ = [{"name": f"t{number:06x}"} for number in range(count)]
    config = {"resourceType": 2, "resourceName": "orders", "configurationKeys": None}
    fetch: Tree = {"maxWaitMs": 30_000, "minBytes": 1 << 30, "maxBytes": 1 << 30}
    asked: list[tuple[str, int, Tree]] = [
        ("metadata", 8, {"topics": [orders] * count}),
        ("metadata", 8, {"topics": differ}),
        ("describe_configs", 3, {"resources": [config] * (count // 2)}),
        ("describe_groups", 4, {"groups": [f"g{number:06x}" for number in range(count)]}),
        (
            "fetch",
            11,
            {**fetch, "topics": [{"topic": "orders", "partitions": [partition] * (count // 3)}]},
        ),
        (
            "offset_fetch",
            5,
            {"groupId": "g", "topics": [{**orders, "partitionIndexes": list(range(count))}]},
        ),
        (
            "produce",
            8,
            {"acks": 1, "topicData": [{**orders, "partitionData": [{"index": 0}] * (count // 2)}]},
        ),
        ("leave_group", 3, {"groupId": "g", "members": [{"memberId": "m"}] * (count // 2)}),
    ]
    return [(name, write_request(BY_NAME[name], version, 1, None, body)) for name, version, body in asked]


def sent_by_several(
    server: Served, frames: list[tuple[str, bytes]], most: int, threads: int
) -> dict[str, int]:
    with ThreadPoolExecutor(threads) as pool:
        answers = pool.map(lambda one: send(server, one[1]), frames)
        while pool._work_queue.qsize():  # meanwhile
            ask(server)
        sizes = {name: size for (name, _frame), size in zip(frames, answers, strict=True)}
    check(server, most)
    return sizes


def test_a_topic_named_sixty_thousand_times_is_answered_once(directory: Path) -> None:
    with Served(directory) as server:
        before = bound(server, 0)
        with server.client() as client:
            answer = client.call("metadata", 8, topics=[{"name": "orders"}] * 60_000)
        assert [topic["name"] for topic in answer["topics"]] == ["orders"]
        assert peak(server) < before + (30 << 20)
        assert server.stop() == 0


def test_the_largest_metadata_request_is_answered_or_closed_within_the_budget(directory: Path) -> None:
    with Served("-v", directory) as server:
        most = bound(server)
        sent_by_several(server, [filled_metadata(), named_frames(100_000)[0]], most, 2)
        assert server.stop() == 0


def filled_metadata() -> tuple[str, bytes]:
    return "metadata", filled(BY_NAME["metadata"], 8, ("topics",))


@pytest.mark.long
def test_a_sample_of_the_worst_requests_stays_within_the_budget(directory: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    frames = random.Random(seed).sample([*worst_frames(1 << 20), *named_frames(20_000)], 4)
    with Served("-v", "--max-memory", "64M", directory) as server:
        sent_by_several(server, frames, bound(server, 64 << 20), 2)
        assert server.stop() == 0


@pytest.mark.soak
def test_the_worst_request_of_every_api_stays_within_the_budget(directory: Path) -> None:
    with Served("-v", directory) as server:
        most = bound(server)
        frames = [*worst_frames(), *named_frames(400_000), *named_frames(50_000)]
        assert {name.split()[0] for name, _frame in worst_frames()} >= {
            "metadata",
            "fetch",
            "join_group",
            "produce",
        }
        sizes = sent_by_several(server, frames, most, 8)
        print({name: size for name, size in sizes.items() if size}, f"{peak(server) >> 20} MiB")
        assert server.stop() == 0


def test_arrays_and_tagged_fields_have_the_bounds_of_brokers(directory: Path) -> None:
    api = BY_NAME["describe_groups"]
    tags = write_uvarint(10_001) + b"\x00\x00" * 10_001
    tagged = write_request(BY_NAME["api_versions"], 4, 1, None, {})[4:-1] + tags
    with Served("-v", directory) as server:
        assert send(server, filled(api, 4, ("groups",), most=10_000))
        assert not send(server, filled(api, 4, ("groups",), most=1_000_001))
        assert not send(server, len(tagged).to_bytes(4, "big") + tagged)
        assert server.stop() == 0
        assert "expected at most 1000000 elements, found 1000001" in server.stderr()
        assert "expected 0 to 10000, found 10001" in server.stderr()


# --- many ---------------------------------------------------------------------------------------------


def hostile(chance: random.Random) -> bytes:
    """One request that is meant to stay: names of 32 KB, metadata, subscriptions, long waits."""
    name = chance.randbytes(12).hex() + "n" * chance.choice((10, 1_000, 32_000))
    match chance.randrange(5):
        case 0 | 1:
            protocols = [{"name": "range", "metadata": bytes(chance.choice((10, 60_000)))}]
            body: Tree = {"groupId": name, "sessionTimeoutMs": 1_800_000, "memberId": ""}
            body |= {"protocolType": "consumer", "protocols": protocols, "rebalanceTimeoutMs": 1_800_000}
            return write_request(BY_NAME["join_group"], chance.choice((3, 5)), 1, name[:20_000], body)
        case 2:
            partitions = [
                {"partitionIndex": number, "committedOffset": 1, "committedMetadata": "é" * 4_096}
                for number in range(3)
            ]
            body = {"groupId": name, "topics": [{"name": "orders", "partitions": partitions}]}
            return write_request(BY_NAME["offset_commit"], 7, 1, None, body)
        case 3:
            return write_request(BY_NAME["describe_groups"], 4, 1, None, {"groups": [name] * 50})
        case _:
            names = [{"name": chance.choice(("orders", name[:20]))} for _ in range(2_000)]
            return write_request(BY_NAME["metadata"], 8, 1, None, {"topics": names})


def flood(server: Served, count: int, seed: int) -> None:
    """Several requests on each connection, then the next; some answers are never read."""
    chance = random.Random(seed)
    while count > 0:
        several = min(count, chance.randint(1, 20))
        count -= several
        with suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=5) as sock:
            for _ in range(several):
                sock.sendall(hostile(chance))
            sock.settimeout(0.02)
            sock.recv(1 << 16)


def flooded(directory: Path, count: int) -> None:
    """A group that was there before goes on, and a new one can begin behind it."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    with Served("-v", directory) as server, server.client() as member:
        most = bound(server)
        who = joined(member, "steady")
        with ThreadPoolExecutor(4) as pool:
            floods = [pool.submit(flood, server, count // 4, seed + number) for number in range(4)]
            while not all(one.done() for one in floods):
                ask(server)
                assert member.call("heartbeat", 3, groupId="steady", **who)["errorCode"] == 0
                time.sleep(0.5)
            for one in floods:
                one.result()
        check(server, most)
        print(f"{peak(server) >> 20} MiB")
        assert server.stop() == 0


def joined(client: RawClient, group: str) -> Tree:
    """Become its only member, and get one's part."""
    body: Tree = {"groupId": group, "sessionTimeoutMs": 60_000, "rebalanceTimeoutMs": 60_000}
    body |= {"protocolType": "consumer", "protocols": [{"name": "range", "metadata": b"m"}]}
    answer = client.call("join_group", 5, **body, memberId="")
    assert answer["errorCode"] == 79
    answer = client.call("join_group", 5, **body, memberId=answer["memberId"])
    assert answer["errorCode"] == 0
    who = {"generationId": answer["generationId"], "memberId": answer["memberId"]}
    given = [{"memberId": answer["memberId"], "assignment": b"a"}]
    assert client.call("sync_group", 3, groupId=group, **who, assignments=given)["assignment"] == b"a"
    return who


def test_hostile_requests_leave_no_more_behind_than_the_budget(directory: Path) -> None:
    flooded(directory, 1_000)


@pytest.mark.soak
def test_a_hundred_thousand_hostile_requests_leave_no_more_behind_than_the_budget(directory: Path) -> None:
    flooded(directory, 100_000)


def crowded(directory: Path, count: int) -> None:
    """Connections that say nothing, begin a large request and stop, drip it, or take no answer.

    Those beyond the budget are closed at once. Who is connected is served meanwhile, others when these go.
    """
    most_connections = ("--max-connections", "10000", "--max-connections-per-address", "10000")
    with Served("-v", *most_connections, directory) as server, server.client() as known:
        most = bound(server)
        ask_as(known)
        held: list[socket.socket] = []
        everything = write_request(BY_NAME["metadata"], 8, 1, None, {"topics": None})
        for number in range(count):
            sock = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            held.append(sock)
            with suppress(OSError):
                match number % 4:
                    case 1:
                        sock.sendall(LARGEST.to_bytes(4, "big") + bytes(15_000))
                    case 2:
                        sock.sendall((200_000).to_bytes(4, "big") + b"\0")
                    case 3:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                        sock.sendall(everything * 100)
        for sock in held[2::4]:
            with suppress(OSError):
                sock.sendall(bytes(100))
        ask_as(known)
        print(f"{peak(server) >> 20} MiB")
        for sock in held:
            sock.close()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with suppress(ConnectionError, EOFError):
                ask(server)
                break
            time.sleep(1)
        check(server, most)
        assert server.stop() == 0


def test_slow_and_half_open_connections_stay_within_the_budget(directory: Path) -> None:
    crowded(directory, 400)


@pytest.mark.soak
def test_five_thousand_slow_and_half_open_connections_stay_within_the_budget(directory: Path) -> None:
    crowded(directory, 5_000)


def test_members_that_wait_hold_no_more_than_the_budget(directory: Path) -> None:
    """Each with a subscription of a mebibyte, most of them in the name of the same member."""
    with Served("-v", "--max-memory", "32M", directory) as server:
        most = bound(server, 32 << 20)
        with server.client() as leader:
            joined(leader, "g")
            body: Tree = {"groupId": "g", "sessionTimeoutMs": 60_000, "rebalanceTimeoutMs": 60_000}
            body |= {"protocolType": "consumer", "memberId": ""}
            body |= {"protocols": [{"name": "range", "metadata": bytes(1 << 20)}]}
            with server.client() as other:
                body["memberId"] = other.call("join_group", 5, **body)["memberId"]
            waiting = [server.client() for _ in range(60)]
            sending = [
                threading.Thread(target=client.send, args=("join_group", 5), kwargs=body)
                for client in waiting
            ]
            for one in sending:
                one.start()
            for one in sending:
                one.join(SECONDS)
            time.sleep(0.5)
            check(server, most)
            for client in waiting:
                client.close()
        assert server.stop() == 0
