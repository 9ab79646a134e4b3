// The weather tool on the official Go SDK, as its chapter on multi round-trip requests has it.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	_ "github.com/mattn/go-sqlite3"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Places in the order of the contract, and today's weather.
var (
	order = []string{
		"Lisbon, Portugal", "Nairobi, Kenya", "Portland, Maine", "Portland, Oregon", "Reykjavik, Iceland",
		"Springfield, Illinois", "Springfield, Massachusetts", "Springfield, Missouri", "Tokyo, Japan",
	}
	celsius = []int{24, 23, 14, 16, 7, 22, 17, 26, 19}
	sky     = []string{"sunny", "light cloud", "fog", "drizzle", "windy", "partly cloudy", "rain", "sunny", "clear"}
	ledger  *sql.DB
	elicits bool
)

func record(kind, subject string) error {
	_, err := ledger.Exec("INSERT INTO effects (kind, subject, at) VALUES (?, ?, ?)",
		kind, subject, time.Now().UTC().Format(time.RFC3339Nano))
	return err
}

func trimmed(location string) string { return strings.Trim(location, " \t\n\r\f\v") }

func places(location string) []string {
	wanted := strings.ToLower(trimmed(location))
	var found []string
	for _, name := range order {
		if city, _, _ := strings.Cut(name, ","); wanted == strings.ToLower(name) || wanted == strings.ToLower(city) {
			found = append(found, name)
		}
	}
	return found
}

func report(place, units string) string {
	at := slices.Index(order, place)
	degrees := fmt.Sprintf("%d °C", celsius[at])
	if units == "imperial" {
		degrees = fmt.Sprintf("%.0f °F", math.Round(float64(celsius[at])*1.8+32))
	}
	return fmt.Sprintf("%s: %s, %s.", place, degrees, sky[at])
}

func text(words string, isError bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: words}}, IsError: isError}
}

type state struct {
	Place string `json:"place"`
}

func canAsk(req *mcp.CallToolRequest) bool {
	declared := req.ClientCapabilities()
	return declared != nil && declared.Elicitation != nil &&
		(declared.Elicitation.Form != nil || declared.Elicitation.URL == nil)
}

func form(key, message string, choices []string) *mcp.ElicitParams {
	enum := make([]any, len(choices))
	for i, each := range choices {
		enum[i] = each
	}
	return &mcp.ElicitParams{
		Message: message,
		RequestedSchema: &jsonschema.Schema{
			Type:       "object",
			Properties: map[string]*jsonschema.Schema{key: {Type: "string", Enum: enum}},
			Required:   []string{key},
		},
	}
}

func ask(req *mcp.CallToolRequest, key, message string, choices []string, carried string) *mcp.CallToolResult {
	if elicits && !canAsk(req) { // the chapter's example does not look
		return text(key+": this client cannot be asked", true)
	}
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{key: form(key, message, choices)},
		RequestState:  carried,
	}
}

// push asks an old client over its session, with the setting "elicit", and adds the answer to the request's.
func push(ctx context.Context, req *mcp.CallToolRequest, key, message string, choices []string) error {
	handshake := req.Session.InitializeParams()
	isOld := handshake != nil && handshake.ProtocolVersion < "2026-07-28"
	if !elicits || !isOld || !canAsk(req) {
		return nil
	}
	result, err := req.Session.Elicit(ctx, form(key, message, choices))
	if err != nil {
		return err
	}
	if req.Params.InputResponses == nil {
		req.Params.InputResponses = mcp.InputResponseMap{}
	}
	req.Params.InputResponses[key] = result
	return nil
}

// answer is what the user chose; or a result, where that is nothing; or neither, if there is no answer.
func answer(req *mcp.CallToolRequest, key string, choices []string) (string, *mcp.CallToolResult) {
	given, ok := req.Params.InputResponses[key]
	if !ok {
		return "", nil
	}
	result, ok := given.(*mcp.ElicitResult)
	if ok && result.Action == "decline" {
		return "", text("No lookup: "+key+" was declined.", false)
	}
	if ok && result.Action == "cancel" {
		return "", text("No lookup: "+key+" was cancelled.", false)
	}
	if ok && result.Action == "accept" {
		if chosen, is := result.Content[key].(string); is && slices.Contains(choices, chosen) {
			return chosen, nil
		}
	}
	return "", text(key+": not one of the choices", true)
}

type arguments struct {
	Location string `json:"location"`
}

func weather(ctx context.Context, req *mcp.CallToolRequest, args arguments) (*mcp.CallToolResult, any, error) {
	if err := record("audit", args.Location); err != nil {
		return nil, nil, err
	}
	names := places(args.Location)
	if len(names) == 0 {
		return text("There is no "+args.Location+".", true), nil, nil
	}
	var carried state
	if req.Params.RequestState != "" {
		err := json.Unmarshal([]byte(req.Params.RequestState), &carried)
		if err != nil || !slices.Contains(names, carried.Place) {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this state names no place"}
		}
	}
	place := carried.Place
	if len(names) == 1 {
		place = names[0]
	}
	if place == "" {
		message := "Which " + trimmed(args.Location) + "?"
		if err := push(ctx, req, "place", message, names); err != nil {
			return nil, nil, err
		}
		chosen, result := answer(req, "place", names)
		if result != nil {
			return result, nil, nil
		}
		if chosen == "" {
			return ask(req, "place", message, names, ""), nil, nil
		}
		place = chosen
	}
	message, units := "Which units for "+place+"?", []string{"metric", "imperial"}
	if err := push(ctx, req, "units", message, units); err != nil {
		return nil, nil, err
	}
	chosen, result := answer(req, "units", units)
	if result != nil {
		return result, nil, nil
	}
	if chosen == "" {
		kept, err := json.Marshal(state{place})
		return ask(req, "units", message, units, string(kept)), nil, err
	}
	if err := record("bill", place); err != nil {
		return nil, nil, err
	}
	return text(report(place, chosen), false), nil, nil
}

func main() {
	var err error
	if ledger, err = sql.Open("sqlite3", "file:"+os.Getenv("MRTR_LEDGER")+"?_busy_timeout=5000"); err != nil {
		log.Fatal(err)
	}
	const table = "CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL," +
		" subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)"
	if _, err := ledger.Exec(table); err != nil {
		log.Fatal(err)
	}
	elicits = os.Args[1] == "elicit"
	server := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "v1.0.0"}, nil)
	one, most := 1, 100
	mcp.AddTool(server, &mcp.Tool{
		Name: "weather",
		InputSchema: &jsonschema.Schema{
			Type:                 "object",
			Properties:           map[string]*jsonschema.Schema{"location": {Type: "string", MinLength: &one, MaxLength: &most}},
			Required:             []string{"location"},
			AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		},
	}, weather)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: os.Args[1] == "default"})
	http.Handle("/mcp", handler)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
