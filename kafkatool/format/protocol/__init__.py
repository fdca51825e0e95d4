"""Kafka's wire protocol without a socket: bytes in, requests out; responses as bytes and slices of files.

`tables` holds the layouts of every API, in the notation of `format/schema`. `apis` is the list of what is
spoken, `frames` cuts a stream into requests and puts responses together, `errors` has the codes.
"""
