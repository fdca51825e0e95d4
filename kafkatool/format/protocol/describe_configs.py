"""DescribeConfigs: the settings of topics, for `kafka-topics --describe` and other lookers-on."""

TABLE = """
32 DescribeConfigsRequest v0-3 flexible 4
  resources []DescribeConfigsResource
    resourceType int8
    resourceName string
    configurationKeys []string?
  includeSynonyms bool v1+
  includeDocumentation bool v3+
32 DescribeConfigsResponse v0-3 flexible 4
  throttleTimeMs int32
  results []DescribeConfigsResult
    errorCode int16
    errorMessage string? = null
    resourceType int8
    resourceName string
    configs []DescribeConfigsResourceResult
      name string
      value string? = null
      readOnly bool = true
      isDefault bool v0
      configSource int8 v1+ = -1
      isSensitive bool
      synonyms []DescribeConfigsSynonym v1+
        name string
        value string? = null
        source int8
      configType int8 v3+
      documentation string? v3+ = null
"""
