// Uses the client that oapi-codegen made.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	client "producer/client"
)

func main() {
	name, ctx := os.Args[1], context.Background()
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("TIDINGS_TOKEN"))
		return nil
	}
	api, err := client.NewClientWithResponses(os.Getenv("TIDINGS_URL"), client.WithRequestEditorFn(authorize))
	check(err)

	occurredAt := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	event := func(id, user string) client.Event {
		return client.Event{Category: "comment", Digest: "activity", EventId: &id, OccurredAt: occurredAt, User: user}
	}
	post := func(events ...client.Event) *client.PostEventsResponse {
		body := client.EventsBody{Events: &events}
		response, err := api.PostEventsWithResponse(ctx, nil, body)
		check(err)
		return response
	}
	fmt.Print("events")
	for _, result := range post(event(name, "ann"), event(name, "ann"), event("wrong", "")).JSON200.Results {
		fmt.Printf(" %s:%s", strings.Replace(result.EventId, name, "e", 1), result.Status)
	}
	fmt.Println()
	refused := post(event("wrong", "")).ApplicationproblemJSON400
	fmt.Println("problem", refused.Status, refused.Type)

	send := func(text string) *client.PostMessageResponse {
		address, subject := "ann@example.net", "Invoice"
		message := client.MessagePost{Key: &name, Subject: &subject, Text: &text, To: client.MessageTo{Address: &address}}
		response, err := api.PostMessageWithResponse(ctx, nil, message)
		check(err)
		return response
	}
	fmt.Println("message", strings.Replace(send("12 euros.").JSON201.Message.Single.Key, name, "m", 1))
	conflict := send("13 euros.").ApplicationproblemJSON409
	fmt.Println("problem", conflict.Status, conflict.Type)

	page, err := api.ListMessagesWithResponse(ctx, nil)
	check(err)
	fmt.Print("listed")
	for _, row := range page.JSON200.Messages {
		if row.Single != nil && row.Single.Key == name {
			fmt.Printf(" %s", strings.Replace(row.Single.Key, name, "m", 1))
		}
	}
	fmt.Println()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
