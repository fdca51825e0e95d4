"""Kafka's wire protocol without a socket: bytes in, requests out; responses as bytes and slices of files.

One module for each API holds its layouts, in the notation of `format/schema`. `apis` is the table of what is
spoken, `frames` cuts a stream into requests and puts responses together, `errors` has the codes.
"""
