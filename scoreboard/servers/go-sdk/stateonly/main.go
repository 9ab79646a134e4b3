// What the client of the official Go SDK makes of a response that has a state and no question.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		RequestState string
	}
}

var calls int

// answer is what a server says that asks for one more request, and completes that.
func answer(asked message) string {
	if asked.Method == "server/discover" {
		return `{"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}`
	}
	calls++
	if asked.Params.RequestState == "" {
		fmt.Printf("%d. the client calls weather\n   gets a state, and no question\n", calls)
		return `{"resultType": "input_required", "requestState": "one"}`
	}
	fmt.Printf("%d. the client calls weather with the state\n   gets the text 'done'\n", calls)
	return `{"resultType": "complete", "content": [{"type": "text", "text": "done"}]}`
}

func main() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var asked message
		if json.NewDecoder(req.Body).Decode(&asked) != nil || asked.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %s, "result": %s}`, asked.ID, answer(asked))
	}))
	defer server.Close()

	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: server.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	arguments := map[string]any{"location": "Tokyo"}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "weather", Arguments: arguments})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("CallTool returns a result: %d content blocks, IsError %t, NeedsInput %t, no error\n",
		len(result.Content), result.IsError, result.NeedsInput())
}
