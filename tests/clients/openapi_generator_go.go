// Uses the client that openapi-generator made for Go.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	client "producer/client"
)

func main() {
	name := os.Args[1]
	configuration := client.NewConfiguration()
	configuration.Servers = client.ServerConfigurations{{URL: os.Getenv("TIDINGS_URL")}}
	api := client.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), client.ContextAccessToken, os.Getenv("TIDINGS_TOKEN"))

	occurredAt := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	event := func(id, user string) client.Event {
		event := client.NewEvent("comment", "activity", occurredAt, user)
		event.SetEventId(id)
		return *event
	}
	post := func(events ...client.Event) (*client.EventResults, error) {
		body := client.NewEventsBody()
		body.SetEvents(events)
		results, _, err := api.EventsAPI.PostEvents(ctx).EventsBody(*body).Execute()
		return results, err
	}
	problem := func(err error) {
		problem := err.(*client.GenericOpenAPIError).Model().(client.Problem)
		fmt.Println("problem", problem.Status, problem.Type)
	}

	posted, err := post(event(name, "ann"), event(name, "ann"), event("wrong", ""))
	check(err)
	fmt.Print("events")
	for _, result := range posted.Results {
		fmt.Printf(" %s:%s", strings.Replace(result.EventId, name, "e", 1), result.Status)
	}
	fmt.Println()
	_, err = post(event("wrong", ""))
	problem(err)

	send := func(text string) (*client.MessageAccepted, error) {
		to := client.NewMessageTo()
		to.SetAddress("ann@example.net")
		message := client.NewMessagePost(*to)
		message.SetKey(name)
		message.SetSubject("Invoice")
		message.SetText(text)
		accepted, _, err := api.MessagesAPI.PostMessage(ctx).MessagePost(*message).Execute()
		return accepted, err
	}
	sent, err := send("12 euros.")
	check(err)
	fmt.Println("message", strings.Replace(sent.Message.Single.Key, name, "m", 1))
	_, err = send("13 euros.")
	problem(err)

	page, _, err := api.MessagesAPI.ListMessages(ctx).Execute()
	check(err)
	fmt.Print("listed")
	for _, row := range page.Messages {
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
