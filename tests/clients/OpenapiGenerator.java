// Uses the client that openapi-generator made for Java.
import java.time.OffsetDateTime;
import java.util.Arrays;
import tidings.ApiClient;
import tidings.ApiException;
import tidings.JSON;
import tidings.api.EventsApi;
import tidings.api.MessagesApi;
import tidings.model.Event;
import tidings.model.EventResult;
import tidings.model.EventResults;
import tidings.model.EventsBody;
import tidings.model.Message;
import tidings.model.MessageAccepted;
import tidings.model.MessagePost;
import tidings.model.MessageTo;
import tidings.model.Problem;

public class OpenapiGenerator {
    interface Call {
        void run() throws ApiException;
    }

    static EventsApi events;
    static MessagesApi messages;
    static String name;

    public static void main(String[] arguments) throws ApiException {
        name = arguments[0];
        ApiClient client = new ApiClient().setBasePath(System.getenv("TIDINGS_URL"));
        client.setBearerToken(System.getenv("TIDINGS_TOKEN"));
        events = new EventsApi(client);
        messages = new MessagesApi(client);

        StringBuilder line = new StringBuilder("events");
        for (EventResult result : post(event(name, "ann"), event(name, "ann"), event("wrong", "")).getResults()) {
            line.append(" " + result.getEventId().replace(name, "e") + ":" + result.getStatus());
        }
        System.out.println(line);
        problem(() -> post(event("wrong", "")));
        System.out.println("message " + send("12 euros.").getMessage().getSingle().getKey().replace(name, "m"));
        problem(() -> send("13 euros."));
        line = new StringBuilder("listed");
        for (Message row : messages.listMessages(null, null, null, null).getMessages()) {
            if (row.getSingle() != null && row.getSingle().getKey().equals(name)) {
                line.append(" " + row.getSingle().getKey().replace(name, "m"));
            }
        }
        System.out.println(line);
    }

    static Event event(String id, String user) {
        return new Event().category("comment").digest("activity").eventId(id).user(user)
            .occurredAt(OffsetDateTime.parse("2026-01-31T08:00:00Z"));
    }

    static EventResults post(Event... items) throws ApiException {
        return events.postEvents(new EventsBody().events(Arrays.asList(items)), null, null);
    }

    static MessageAccepted send(String text) throws ApiException {
        MessagePost message = new MessagePost().key(name).subject("Invoice").text(text);
        return messages.postMessage(message.to(new MessageTo().address("ann@example.net")), null, null);
    }

    static void problem(Call call) {
        try {
            call.run();
        } catch (ApiException error) {
            Problem problem = JSON.getGson().fromJson(error.getResponseBody(), Problem.class);
            System.out.println("problem " + problem.getStatus() + " " + problem.getType());
        }
    }
}
