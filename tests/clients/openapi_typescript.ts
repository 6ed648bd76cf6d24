// Uses the types that openapi-typescript made, with openapi-fetch.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const { TIDINGS_URL: baseUrl, TIDINGS_TOKEN: token } = process.env;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const name = process.argv[2]!;

const event = (fields: Partial<components["schemas"]["Event"]>): components["schemas"]["Event"] => ({
    digest: "activity", user: "ann", category: "comment", occurred_at: "2026-01-31T08:00:00Z", ...fields,
});
const wrong = event({ event_id: "wrong", user: "" });
const message = { key: name, to: { address: "ann@example.net" }, subject: "Invoice", text: "12 euros." };

const posted = await client.POST("/v1/events", {
    body: { events: [event({ event_id: name }), event({ event_id: name }), wrong] },
});
const results = posted.data!.results;
console.log("events", ...results.map((result) => `${result.event_id.replace(name, "e")}:${result.status}`));
const refused = await client.POST("/v1/events", { body: { events: [wrong] } });
console.log("problem", refused.error!.status, refused.error!.type);
const sent = await client.POST("/v1/messages", { body: message });
console.log("message", sent.data!.message.single!.key.replace(name, "m"));
const again = await client.POST("/v1/messages", { body: { ...message, text: "13 euros." } });
console.log("problem", again.error!.status, again.error!.type);
const rows = (await client.GET("/v1/messages")).data!.messages;
console.log("listed", ...rows.filter((row) => row.single?.key === name).map((row) => row.single!.key.replace(name, "m")));
