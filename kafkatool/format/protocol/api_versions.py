"""ApiVersions: which APIs are spoken, in which versions. The first request on most connections.

Its answer has the old header at every version, because the client does not know yet what we speak.
"""

TABLE = """
18 ApiVersionsRequest v0-4 flexible 3
  clientSoftwareName string v3+
  clientSoftwareVersion string v3+
18 ApiVersionsResponse v0-4 flexible 3
  errorCode int16
  apiKeys []ApiVersion
    apiKey int16
    minVersion int16
    maxVersion int16
  throttleTimeMs int32 v1+
"""
