"""Kafka's wire protocol without sockets: bytes in, requests out; responses as bytes and file slices.

`tables` holds the layouts of every API, in the notation of `format/schema`. `apis` lists what is supported,
`frames` splits a stream into requests and assembles responses, `errors` has the codes.
"""
