"""Written by `make schemas` from the definitions in Kafka's jars."""

TABLE = """
0 TransactionLog v0-1 flexible 1
  key: transactionalId string
  producerId int64
  previousProducerId int64 v1+ tag 0 = -1 since 4.0
  nextProducerId int64 v1+ tag 1 = -1 since 4.0
  producerEpoch int16
  nextProducerEpoch int16 v1+ tag 3 = -1 since 4.1
  transactionTimeoutMs int32
  transactionStatus int8
  transactionPartitions []PartitionsSchema?
    topic string
    partitionIds []int32
  transactionLastUpdateTimestampMs int64
  transactionStartTimestampMs int64
  clientTransactionVersion int16 v1+ tag 2 since 4.0
"""
