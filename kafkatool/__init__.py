"""Read, prove, repair and explain Apache Kafka's on-disk logs.

    import kafkatool

    logs = kafkatool.open("/var/lib/kafka/data")
    for record in logs.records(topic="orders", partition=0): ...

The names below are the library's promise; `docs/library.md` has examples. `__init__.pyi` has their types.
"""

__version__ = "0.1.0"

# `kafkatool --help` imports this module: nothing else is imported until it is asked for.
_HOMES = {
    "BatchQuery": "kafkatool.library.batch_query",
    "ConsumerRecord": "kafkatool.library.record_query",
    "Damage": "kafkatool.engine.batches.damage",
    "DamagedLog": "kafkatool.library.reading",
    "Finding": "kafkatool.engine.verify.finding",
    "FindingClass": "kafkatool.engine.batches.damage",
    "FormatError": "kafkatool.errors",
    "KafkaLogs": "kafkatool.library.logs",
    "KafkatoolError": "kafkatool.errors",
    "LogBatch": "kafkatool.library.batch_query",
    "Partition": "kafkatool.engine.directory.log_dir",
    "RecordQuery": "kafkatool.library.record_query",
    "Severity": "kafkatool.engine.batches.damage",
    "UsageError": "kafkatool.errors",
    "open": "kafkatool.library.logs",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*_HOMES, "__version__"]
