"""SaslAuthenticate: the tokens of a SASL mechanism."""

TABLE = """
36 SaslAuthenticateRequest v0-1 flexible 2
  authBytes bytes
36 SaslAuthenticateResponse v0-1 flexible 2
  errorCode int16
  errorMessage string? = null
  authBytes bytes
  sessionLifetimeMs int64 v1+
"""
