module client

go 1.25

require github.com/modelcontextprotocol/go-sdk v1.8.0
