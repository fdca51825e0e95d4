"""Any record of an internal topic gives a text and a row, whatever its bytes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError, UsageError
from kafkatool.format.release import Release
from kafkatool.format.schema import (
    Decoder,
    DecoderThrows,
    control_row,
    control_text,
    decode_row,
    decode_text,
    decoder_for_topic,
    encode_record,
)
from kafkatool.format.schema.control import write_control, write_end_marker
from kafkatool.format.schema.layout import Layout, value_layout
from kafkatool.format.schema.notation import Message, parse_messages
from kafkatool.format.schema.reading import Unreadable, read_struct
from kafkatool.format.schema.writing import write_struct
from tests.format.schema.samples import Sample, random_tree, samples, topic

NEWEST = Release.V4_3
GROUP_KEY: dict[str, object] = {"groupId": "g"}
SHARE_KEY: dict[str, object] = {"groupId": "g", "partition": 1}

decoders = st.sampled_from(list(Decoder))
releases = st.sampled_from(list(Release))


def _layouts() -> Iterator[tuple[str, Layout]]:
    for decoder in Decoder:
        for message in topic(decoder).messages:
            for release in Release:
                if message.known_to(release):
                    for version in range(message.valid(release).high + 1):
                        yield (
                            f"{message.name} {version} {release.label}",
                            value_layout(message, version, release),
                        )


LAYOUTS = dict(_layouts())


@given(st.sampled_from(sorted(LAYOUTS)), st.integers(0, 1 << 32))
def test_what_is_written_reads_back(name: str, seed: int) -> None:
    layout = LAYOUTS[name]
    raw = write_struct(layout, random_tree(layout, random.Random(seed)))
    tree, end = read_struct(layout, raw)
    assert end == len(raw)
    assert write_struct(layout, tree) == raw


@given(st.sampled_from(sorted(LAYOUTS)), st.binary(max_size=200))
def test_any_bytes_give_a_tree_or_a_format_error(name: str, raw: bytes) -> None:
    with suppress(Unreadable):
        _, end = read_struct(LAYOUTS[name], raw)
        assert end <= len(raw)


@given(decoders, releases, st.none() | st.binary(max_size=100), st.none() | st.binary(max_size=100))
def test_any_bytes_give_a_text_or_what_kafka_throws(
    decoder: Decoder, release: Release, key: bytes | None, value: bytes | None
) -> None:
    with suppress(DecoderThrows):
        assert any(decode_text(decoder, release, 7, key, value))


@given(decoders, st.none() | st.binary(max_size=100), st.none() | st.binary(max_size=100))
def test_any_bytes_give_a_row_that_json_can_hold(
    decoder: Decoder, key: bytes | None, value: bytes | None
) -> None:
    row = decode_row(decoder, key, value)
    assert "type" in row or "error" in row
    json.dumps(row, allow_nan=False)


@given(releases, st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_control_record_gives_a_text_or_what_kafka_throws(
    release: Release, key: bytes | None, value: bytes | None
) -> None:
    json.dumps(control_row(key, value))
    with suppress(DecoderThrows):
        assert control_text(release, key, value)


@pytest.mark.parametrize("decoder", Decoder)
def test_a_record_cut_anywhere_still_gives_a_row(decoder: Decoder) -> None:
    for message in topic(decoder).messages:
        if message.known_to(NEWEST):
            key, value = encode_record(decoder, message.name, 0, {}, {})
            for cut in range(len(value or b"")):
                json.dumps(decode_row(decoder, key, (value or b"")[:cut]), allow_nan=False)


@pytest.mark.parametrize("decoder", Decoder)
@pytest.mark.parametrize("release", [Release.V4_0, NEWEST])
def test_what_a_release_writes_is_read_whole(decoder: Decoder, release: Release) -> None:
    for message in topic(decoder).messages:
        if message.known_to(release):
            record = encode_record(decoder, message.name, 0, {}, {}, release)
            row = decode_row(decoder, *record)
            assert row["type"] == message.name
            assert not {"error", "unreadBytes", "versionUnknown"} & row.keys()


@pytest.mark.parametrize(
    ("topic_name", "decoder"),
    [("__consumer_offsets", Decoder.OFFSETS), ("__cluster_metadata", Decoder.CLUSTER_METADATA), ("t", None)],
)
def test_a_topic_name_chooses_its_decoder(topic_name: str, decoder: Decoder | None) -> None:
    assert decoder_for_topic(topic_name) == decoder


def test_an_offset_commit_prints_as_kafka_prints_it() -> None:
    value: dict[str, object] = {"offset": 5, "commitTimestamp": 1700000000000}
    record = encode_record(Decoder.OFFSETS, "OffsetCommit", 3, value, {"group": "g", "topic": "t"})
    assert decode_text(Decoder.OFFSETS, NEWEST, 9, *record) == (
        '{"type":"1","data":{"group":"g","topic":"t","partition":0}}',
        '{"version":"3","data":{"offset":5,"leaderEpoch":-1,"metadata":"","commitTimestamp":1700000000000}}',
    )


def test_transactions_had_a_text_of_their_own_up_to_4_0() -> None:
    partitions = [{"topic": "t", "partitionIds": [0, 1]}]
    value: dict[str, object] = {"producerId": 4, "transactionStatus": 1, "transactionPartitions": partitions}
    record = encode_record(Decoder.TRANSACTION_LOG, "TransactionLog", 0, value, {"transactionalId": "id"})
    assert decode_text(Decoder.TRANSACTION_LOG, Release.V4_0, 0, *record) == (
        "transaction_metadata::transactionalId=id",
        "producerId:4,producerEpoch:0,state=Ongoing,partitions=[t-1,t-0],txnLastUpdateTimestamp=0,txnTimeoutMs=0",
    )
    assert decode_row(Decoder.TRANSACTION_LOG, *record)["value"] == {
        "producerId": 4,
        "producerEpoch": 0,
        "transactionTimeoutMs": 0,
        "transactionStatus": 1,
        "transactionPartitions": partitions,
        "transactionLastUpdateTimestampMs": 0,
        "transactionStartTimestampMs": 0,
        "transactionStatusName": "Ongoing",
    }


def test_a_tombstone_has_no_value() -> None:
    record = encode_record(Decoder.OFFSETS, "ConsumerGroupMetadata", 0, None, GROUP_KEY)
    assert decode_text(Decoder.OFFSETS, NEWEST, 0, *record)[1] == "<DELETE>"
    assert decode_row(Decoder.OFFSETS, *record) == {
        "type": "ConsumerGroupMetadata",
        "version": None,
        "key": GROUP_KEY,
        "value": None,
    }


def test_a_layout_that_changed_without_a_new_version_is_found() -> None:
    batches = [{"firstOffset": 3, "lastOffset": 9, "deliveryState": 2, "deliveryCount": 1}]
    value: dict[str, object] = {"snapshotEpoch": 2, "startOffset": 3, "stateBatches": batches}
    record = encode_record(
        Decoder.SHARE_GROUP_STATE, "ShareSnapshot", 0, value, SHARE_KEY, release=Release.V4_0
    )
    row = decode_row(Decoder.SHARE_GROUP_STATE, *record)
    assert row["layout"] == "4.0"
    assert row["value"] == {**value, "stateEpoch": 0, "leaderEpoch": 0}


def test_unknown_tags_are_kept_and_bytes_left_over_are_counted() -> None:
    value: dict[str, object] = {"epoch": 1, "unknownTags": [{"tag": 9, "data": b"\x01\x02"}]}
    key, raw = encode_record(Decoder.OFFSETS, "ConsumerGroupMetadata", 0, value, GROUP_KEY)
    row = decode_row(Decoder.OFFSETS, key, (raw or b"") + b"xyz")
    assert row["unreadBytes"] == 3
    assert row["value"] == {"epoch": 1, "metadataHash": 0, "unknownTags": [{"tag": 9, "data": "AQI="}]}


def test_a_version_nobody_knows_is_read_as_the_newest_and_flagged() -> None:
    _, raw = encode_record(Decoder.CLUSTER_METADATA, "TopicRecord", 5, {"name": "t"})
    row = decode_row(Decoder.CLUSTER_METADATA, None, raw)
    assert (row["type"], row["version"], row["versionUnknown"]) == ("TopicRecord", 5, True)


def test_a_value_that_cannot_be_read_leaves_its_key_readable() -> None:
    key, _ = encode_record(Decoder.OFFSETS, "GroupMetadata", 0, None, {"group": "g"})
    row = decode_row(Decoder.OFFSETS, key, b"\x00\x03\x00")
    assert row["key"] == {"group": "g"}
    assert row["error"] == "Could not read record with version 3 from value's buffer due to: null."


def test_the_members_of_a_consumer_group_show_what_they_sent() -> None:
    subscription = bytes.fromhex("0000 00000001 0001 74 ffffffff")
    member = {"memberId": "m", "subscription": subscription, "assignment": b"\x00"}
    value: dict[str, object] = {"protocolType": "consumer", "members": [member]}
    record = encode_record(Decoder.OFFSETS, "GroupMetadata", 3, value, {"group": "g"})
    _, text = decode_text(Decoder.OFFSETS, NEWEST, 0, *record)
    assert text is not None
    assert '"subscription":{"topics":["t"],"userData":null},"assignment":"AA=="' in text


SECRETS = [
    ("UserScramCredentialRecord", {"name": "u", "salt": b"hush", "storedKey": b"hush", "serverKey": b"hush"}),
    ("DelegationTokenRecord", {"tokenId": "hush"}),
    ("RemoveDelegationTokenRecord", {"tokenId": "hush"}),
    ("ConfigRecord", {"name": "listener.name.x.ssl.keystore.password", "value": "hush"}),
    ("ConfigRecord", {"name": "sasl.jaas.config", "value": "hush"}),
]


@pytest.mark.parametrize(("name", "value"), SECRETS)
def test_secrets_are_hidden_on_request(name: str, value: dict[str, object]) -> None:
    _, raw = encode_record(Decoder.CLUSTER_METADATA, name, 0, value)
    shown = str(decode_text(Decoder.CLUSTER_METADATA, NEWEST, 0, None, raw))
    assert "hush" in shown or "aHVzaA==" in shown
    for hidden in (
        str(decode_text(Decoder.CLUSTER_METADATA, NEWEST, 0, None, raw, redacted=True)),
        str(decode_row(Decoder.CLUSTER_METADATA, None, raw, redacted=True)),
    ):
        assert "<redacted>" in hidden
        assert "hush" not in hidden
        assert "aHVzaA==" not in hidden


def test_an_ordinary_config_is_not_hidden() -> None:
    value: dict[str, object] = {"name": "retention.ms", "value": "5"}
    _, raw = encode_record(Decoder.CLUSTER_METADATA, "ConfigRecord", 0, value)
    row = decode_row(Decoder.CLUSTER_METADATA, None, raw, redacted=True)
    assert row["value"] == {"resourceType": 0, "resourceName": "", **value}


def test_control_records_print_as_in_their_release() -> None:
    assert control_text(NEWEST, *write_end_marker(True, 3)) == " endTxnMarker: COMMIT coordinatorEpoch: 3"
    leader = write_control(2, {"leaderId": 1, "voters": [{"voterId": 1}]})
    assert control_text(Release.V4_0, *leader) == " controlType: LEADER_CHANGE(2)"
    expected = ' LeaderChange: {"version":0,"leaderId":1,"voters":[{"voterId":1}],"grantingVoters":[]}'
    assert control_text(NEWEST, *leader) == expected
    assert control_text(NEWEST, b"\x00\x00\x00\x63", None) == " controlType: UNKNOWN(99)"


def test_a_value_that_does_not_fit_its_field_is_not_written() -> None:
    for epoch in (1 << 40, "x", None):
        with pytest.raises(FormatError):
            encode_record(Decoder.OFFSETS, "ConsumerGroupMetadata", 0, {"epoch": epoch}, GROUP_KEY)
    with pytest.raises(FormatError):
        encode_record(Decoder.OFFSETS, "ConsumerGroupMetadata", 0, None, {"groupId": None})
    with pytest.raises(FormatError):
        encode_record(Decoder.CLUSTER_METADATA, "RemoveTopicRecord", 0, {"topicId": "short"})
    with pytest.raises(UsageError):
        encode_record(Decoder.OFFSETS, "Nonsense", 0, {})


def test_the_notation_says_what_it_does_not_understand() -> None:
    with pytest.raises(ValueError, match="what is 'sometimes'"):
        parse_messages("1 Message sometimes")


def test_record_types_have_one_message_each() -> None:
    for decoder in Decoder:
        messages: tuple[Message, ...] = topic(decoder).messages
        assert len({message.api_key for message in messages}) == len(messages)


def test_importing_the_package_loads_no_table() -> None:
    code = "import sys, kafkatool.format.schema; print([m for m in sys.modules if 'schema.' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_sample_is_made_for_every_decoder() -> None:
    assert all(isinstance(next(samples(decoder, NEWEST, 1, random.Random(0))), Sample) for decoder in Decoder)
