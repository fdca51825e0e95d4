"""SaslHandshake: which mechanism is to be used. After version 0 bare tokens follow, after 1 requests."""

TABLE = """
17 SaslHandshakeRequest v0-1 rigid
  mechanism string
17 SaslHandshakeResponse v0-1 rigid
  errorCode int16
  mechanisms []string
"""
