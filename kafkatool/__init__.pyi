from kafkatool.engine.batches.damage import Damage as Damage
from kafkatool.engine.batches.damage import FindingClass as FindingClass
from kafkatool.engine.batches.damage import Severity as Severity
from kafkatool.engine.directory.log_dir import Partition as Partition
from kafkatool.engine.verify.finding import Finding as Finding
from kafkatool.errors import FormatError as FormatError
from kafkatool.errors import KafkatoolError as KafkatoolError
from kafkatool.errors import UsageError as UsageError
from kafkatool.library.batch_query import BatchQuery as BatchQuery
from kafkatool.library.batch_query import LogBatch as LogBatch
from kafkatool.library.logs import KafkaLogs as KafkaLogs
from kafkatool.library.logs import open as open
from kafkatool.library.reading import DamagedLog as DamagedLog
from kafkatool.library.record_query import ConsumerRecord as ConsumerRecord
from kafkatool.library.record_query import RecordQuery as RecordQuery

__version__: str
