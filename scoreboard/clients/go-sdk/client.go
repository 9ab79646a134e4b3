// The official Go SDK's client, used as its documentation says.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// A job is one call to be made. See README.md for the lines that go in and out.
type job struct {
	ID        int               `json:"id"`
	URL       string            `json:"url"`
	Issuer    string            `json:"issuer"`
	Command   []string          `json:"command"`
	Era       string            `json:"era"`
	Tool      string            `json:"tool"`
	Arguments map[string]any    `json:"arguments"`
	Answers   map[string]string `json:"answers"`
	Wrong     map[string]string `json:"wrong"`
	Thinks    float64           `json:"think_seconds"`
	began     time.Time
}

var printing sync.Mutex

func say(said map[string]any) {
	line, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func (j *job) say(name string, what any) { say(map[string]any{"job": j.ID, name: what}) }

func (j *job) ended(said map[string]any) {
	said["job"], said["seconds"] = j.ID, time.Since(j.began).Seconds()
	say(said)
}

// raised says that the call raised, or, with `where` "client", what is around it did.
func (j *job) raised(err error, where string) {
	about := map[string]any{"class": fmt.Sprintf("%T", err), "code": nil, "message": err.Error()}
	var refused *jsonrpc.Error
	if errors.As(err, &refused) {
		about["code"] = refused.Code
	}
	j.ended(map[string]any{"raised": about, "where": where})
}

// user fills in the form that the user is shown.
func (j *job) user(ctx context.Context, request *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	j.say("asked", request.Params.Message)
	time.Sleep(time.Duration(j.Thinks * float64(time.Second)))
	j.Thinks = 0
	schema, ok := request.Params.RequestedSchema.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the form is a %T", request.Params.RequestedSchema)
	}
	content := map[string]any{}
	for name := range schema["properties"].(map[string]any) {
		content[name] = j.Answers[name]
		if wrong, ok := j.Wrong[name]; ok {
			content[name] = wrong
			delete(j.Wrong, name)
		}
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}, nil
}

func (j *job) transport() mcp.Transport {
	if len(j.Command) > 0 {
		return &mcp.CommandTransport{Command: exec.Command(j.Command[0], j.Command[1:]...)}
	}
	transport := &mcp.StreamableClientTransport{Endpoint: j.URL}
	if j.Issuer != "" {
		secret := &oauthex.ClientSecretAuth{ClientSecret: "a secret"}
		credentials := &oauthex.ClientCredentials{ClientID: "the-client", ClientSecretAuth: secret, Issuer: j.Issuer}
		handler, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{Credentials: credentials})
		if err != nil {
			panic(err)
		}
		transport.OAuthHandler = handler
	}
	return transport
}

// make makes the call with a connected client, then sees whether the client still lists the tools.
func (j *job) make(ctx context.Context, session *mcp.ClientSession) {
	j.began = time.Now()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: j.Tool, Arguments: j.Arguments})
	if err != nil {
		j.raised(err, "call")
	} else {
		var text strings.Builder
		for _, block := range result.Content {
			if each, ok := block.(*mcp.TextContent); ok {
				text.WriteString(each.Text)
			}
		}
		said := map[string]any{"text": text.String(), "is_error": result.IsError}
		j.ended(map[string]any{"returned": said})
	}
	_, err = session.ListTools(ctx, nil)
	j.say("usable", err == nil)
}

func (j *job) call() {
	defer j.say("over", true)
	j.began = time.Now()
	ctx := context.Background()
	options := &mcp.ClientOptions{ElicitationHandler: j.user}
	client := mcp.NewClient(&mcp.Implementation{Name: "scorecard", Version: "1"}, options)
	speaks := &mcp.ClientSessionOptions{}
	if j.Era == "legacy" {
		speaks.ProtocolVersion = "2025-11-25"
	}
	session, err := client.Connect(ctx, j.transport(), speaks)
	if err != nil {
		j.raised(err, "client")
		return
	}
	j.make(ctx, session)
	_ = session.Close()
}

func main() {
	say(map[string]any{"ready": true})
	var calls sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		each := &job{}
		if err := json.Unmarshal(lines.Bytes(), each); err != nil {
			panic(err)
		}
		calls.Go(each.call)
	}
	calls.Wait()
}
