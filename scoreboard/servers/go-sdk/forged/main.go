// What a server that is written like the documentation makes of a state that a client has made up.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const madeUp = `{"place":"Springfield, Illinois"}`

func main() {
	ctx := context.Background()
	elicits := func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return nil, fmt.Errorf("nothing is asked")
	}
	options := &mcp.ClientOptions{ElicitationHandler: elicits}
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "v1.0.0"}, options)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: os.Getenv("URL")}, nil)
	if err != nil {
		log.Fatal(err)
	}
	units := &mcp.ElicitResult{Action: "accept", Content: map[string]any{"units": "metric"}}
	fmt.Printf("1. a client calls weather for 'Springfield', answers 'units': 'metric', with the state %s\n", madeUp)
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name:           "weather",
		Arguments:      map[string]any{"location": "Springfield"},
		InputResponses: mcp.InputResponseMap{"units": units},
		RequestState:   madeUp,
	})
	if err != nil {
		fmt.Printf("   gets the error %q\n", err)
		return
	}
	for _, block := range result.Content {
		if text, ok := block.(*mcp.TextContent); ok {
			fmt.Printf("   gets the text '%s', IsError %t\n", text.Text, result.IsError)
		}
	}
}
