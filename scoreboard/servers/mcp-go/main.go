// The weather tool on mcp-go, as its guide to 2026-07-28 and its example of multi round-trip requests write a tool.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	_ "github.com/mattn/go-sqlite3"
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
	careful bool
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
	assumed := ""
	if units == "" {
		assumed = " (metric assumed: this client cannot be asked)"
	}
	return fmt.Sprintf("%s: %s, %s.%s", place, degrees, sky[at], assumed)
}

// canAsk reports whether the client declared forms. The guide leaves this out, and so does the default variant.
func canAsk(ctx context.Context) bool {
	if !careful {
		return true
	}
	session, ok := server.ClientSessionFromContext(ctx).(server.SessionWithClientInfo)
	if !ok {
		return false
	}
	declared := session.GetClientCapabilities().Elicitation
	return declared != nil && (declared.Form != nil || declared.URL == nil)
}

func ask(key, message string, choices []string, state string) *mcp.CallToolResult {
	return server.NewInputRequestBuilder(state).
		Elicit(key, mcp.ElicitationParams{
			Mode:    mcp.ElicitationModeForm,
			Message: message,
			RequestedSchema: map[string]any{
				"type":       "object",
				"properties": map[string]any{key: map[string]any{"type": "string", "enum": choices}},
				"required":   []string{key},
			},
		}).
		ToolResult()
}

// answer returns what the user chose, or a result that ends the call, or neither if there is no answer.
func answer(request mcp.CallToolRequest, key string, choices []string) (string, *mcp.CallToolResult) {
	given := server.ElicitationResponse(request.Params.InputResponses, key)
	if given == nil {
		return "", nil
	}
	switch given.Action {
	case mcp.ElicitationResponseActionDecline:
		return "", mcp.NewToolResultText("No lookup: " + key + " was declined.")
	case mcp.ElicitationResponseActionCancel:
		return "", mcp.NewToolResultText("No lookup: " + key + " was cancelled.")
	}
	content, _ := given.Content.(map[string]any)
	chosen, _ := content[key].(string)
	if given.Action != mcp.ElicitationResponseActionAccept || !slices.Contains(choices, chosen) {
		return "", mcp.NewToolResultError(key + ": not one of the choices")
	}
	return chosen, nil
}

func weather(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	location := request.GetString("location", "")
	if err := record("audit", location); err != nil {
		return nil, err
	}
	names := places(location)
	if len(names) == 0 {
		return mcp.NewToolResultError("There is no " + location + "."), nil
	}
	asks := canAsk(ctx)

	// The state is what an earlier round handed out, as in the guide: the place.
	place := request.Params.RequestState
	if place != "" && !slices.Contains(names, place) {
		return mcp.NewToolResultError("this state names no place"), nil
	}
	if len(names) == 1 {
		place = names[0]
	}
	if place == "" && !asks {
		return mcp.NewToolResultError("Name the place: " + strings.Join(names, "; ") + "."), nil
	}
	if place == "" {
		chosen, result := answer(request, "place", names)
		if result != nil {
			return result, nil
		}
		if chosen == "" {
			return ask("place", "Which "+trimmed(location)+"?", names, ""), nil
		}
		place = chosen
	}

	units := ""
	if asks {
		choices := []string{"metric", "imperial"}
		chosen, result := answer(request, "units", choices)
		if result != nil {
			return result, nil
		}
		if chosen == "" {
			return ask("units", "Which units for "+place+"?", choices, place), nil
		}
		units = chosen
	}
	if err := record("bill", place); err != nil {
		return nil, err
	}
	return mcp.NewToolResultText(report(place, units)), nil
}

func main() {
	careful = os.Args[1] == "hardened"
	var err error
	if ledger, err = sql.Open("sqlite3", "file:"+os.Getenv("MRTR_LEDGER")+"?_busy_timeout=5000"); err != nil {
		log.Fatal(err)
	}
	const table = "CREATE TABLE IF NOT EXISTS effects (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL," +
		" subject TEXT NOT NULL, key TEXT, at TEXT NOT NULL)"
	if _, err := ledger.Exec(table); err != nil {
		log.Fatal(err)
	}
	srv := server.NewMCPServer("weather", "1.0.0",
		server.WithToolCapabilities(true),
		server.WithElicitation(),
		server.WithInputSchemaValidation(),
		server.WithStrictInputSchemaDefault(),
	)
	srv.AddTool(
		mcp.NewTool("weather",
			mcp.WithDescription("Today's weather"),
			mcp.WithString("location", mcp.Required(), mcp.MinLength(1), mcp.MaxLength(100)),
		),
		weather,
	)
	http.Handle("/mcp", server.NewStreamableHTTPServer(srv))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
