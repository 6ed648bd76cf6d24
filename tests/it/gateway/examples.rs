//! The document's examples go through a real server: each operation succeeds with each of its examples.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tidings_gateway::api::openapi;
use tidings_harness::{
    api::Api,
    cli_env::CliEnv,
    env::{event, key},
    signals::{json_events, malformed, signal},
    wait::eventually,
};
use tidings_model::api_token::TokenScope;
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_mins(1);

/// The operations of the document, and the examples that were not sent yet.
struct Walk {
    api: Api,
    document: Value,
    left: BTreeSet<(String, String)>,
}

/// A request of an operation.
#[derive(Clone)]
struct Sample {
    operation: String,
    /// The media type and the name of the example.
    example: String,
    method: String,
    path: String,
    headers: String,
    body: String,
}

impl Walk {
    fn new(api: Api) -> Self {
        let mut walk = Self { api, document: openapi::document(), left: BTreeSet::new() };
        let ids: Vec<_> = walk.operations().filter_map(|(.., operation)| operation["operationId"].as_str()).collect();
        let samples = ids.into_iter().flat_map(|id| walk.samples(id, &[]));
        walk.left = samples.map(|sample| (sample.operation, sample.example)).collect();
        walk
    }

    /// Each operation with its path and method.
    fn operations(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let paths = self.document["paths"].as_object().into_iter().flatten();
        paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().into_iter().flatten();
            methods.map(|(method, operation)| (path.as_str(), method.as_str(), operation))
        })
    }

    /// A request for each example of an operation's body; one request without a body if it takes none. Parameters of the path have these
    /// values, or those of their examples.
    fn samples(&self, id: &str, values: &[(&str, &str)]) -> Vec<Sample> {
        let found = self.operations().find(|(.., operation)| operation["operationId"] == id);
        let (path, method, operation) = found.unwrap_or_else(|| panic!("no operation {id}"));
        let bare = Sample {
            operation: id.to_owned(),
            example: String::new(),
            method: method.to_uppercase(),
            path: filled(path, operation, values),
            headers: self.headers(operation),
            body: String::new(),
        };
        let contents = operation["requestBody"]["content"].as_object().into_iter().flatten();
        let samples = contents.flat_map(|(kind, content)| {
            let examples = content["examples"].as_object().into_iter().flatten();
            let samples = examples.map(|(name, example)| Sample {
                example: format!("{kind} {name}"),
                headers: format!("{}Content-Type: {kind}\r\n", bare.headers),
                body: example["value"].as_str().map_or_else(|| example["value"].to_string(), str::to_owned),
                ..bare.clone()
            });
            samples.collect::<Vec<_>>()
        });
        let samples: Vec<_> = samples.collect();
        if samples.is_empty() { vec![bare] } else { samples }
    }

    /// The headers that an operation requires, with their examples.
    fn headers(&self, operation: &Value) -> String {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let resolved = parameters.filter_map(|parameter| match parameter["$ref"].as_str() {
            Some(reference) => self.document.pointer(reference.trim_start_matches('#')),
            None => Some(parameter),
        });
        let required = resolved.filter(|parameter| parameter["in"] == "header" && parameter["required"] == true);
        let lines = required.filter_map(|parameter| {
            Some(format!("{}: {}\r\n", parameter["name"].as_str()?, parameter["schema"]["examples"][0].as_str()?))
        });
        lines.collect()
    }

    /// Sends a request and expects a success.
    async fn send(&mut self, sample: Sample, query: &str) -> Result<Value> {
        let Sample { operation, example, method, path, headers, body } = sample;
        let (status, answer) = self.api.send(&method, &format!("{path}{query}"), &headers, &body).await?;
        ensure!(status < 300, "{method} {path} {example}: {status} {answer}");
        self.left.remove(&(operation, example));
        Ok(serde_json::from_str(&answer)?)
    }

    /// Sends each example of an operation. Returns the last answer.
    async fn call(&mut self, id: &str) -> Result<Value> {
        self.call_with(id, &[], "").await
    }

    /// Sends each example with these values of parameters of the path, and with a query.
    async fn call_with(&mut self, id: &str, values: &[(&str, &str)], query: &str) -> Result<Value> {
        let mut last = Value::Null;
        for sample in self.samples(id, values) {
            last = self.send(sample, query).await?;
        }
        Ok(last)
    }

    async fn call_all(&mut self, ids: &[&str]) -> Result<()> {
        for id in ids {
            self.call(id).await?;
        }
        Ok(())
    }

    /// Waits until an answer to a question has something, and returns that.
    async fn until<T>(&self, path: &str, find: impl Fn(&Value) -> Option<T>) -> Result<T> {
        eventually(path, MINUTE, async || {
            let (_, answer) = self.api.get(path).await?;
            Ok(find(&serde_json::from_str(&answer)?))
        })
        .await
    }

    /// Waits until the key of ann is in a state.
    async fn reaches(&self, state: &str) -> Result<()> {
        self.until("/v1/digests/activity/ann", |status| (status["state"] == state).then_some(())).await
    }

    /// Waits for a row of a listing, and returns a field of it.
    async fn listed(&self, path: &str, field: &str) -> Result<String> {
        self.until(path, |listed| listed["rows"][0][field].as_str().map(str::to_owned)).await
    }

    /// Waits until a digest is sent.
    async fn sent(&self, id: &str) -> Result<()> {
        let path = format!("/v1/ledger/digests/{id}");
        self.until(&path, |story| (story["digest"]["closed"]["outcome"] == "sent").then_some(())).await
    }

    /// Emits an event for ann, and waits until its window is open.
    async fn collect(&self, id: &str) -> Result<()> {
        let event = json!({"event_id": id, "digest": "activity", "user": "ann", "category": "comment",
                           "occurred_at": "2026-01-31T08:00:00Z"});
        let (status, answer) = self.api.request("POST", "/v1/events", "", &event.to_string()).await?;
        ensure!(status == 202, "{answer}");
        self.reaches("collecting").await
    }

    async fn digests(&mut self) -> Result<()> {
        self.call("postEvents").await?;
        // Those that come after the plan of the window are counted apart.
        let counts = |status: &Value| ["pending", "uncompared"].map(|field| status[field].as_u64().unwrap_or_default());
        let all_have_come = |status: &Value| (counts(status).iter().sum::<u64>() == 3).then_some(());
        self.until("/v1/digests/activity/ann", all_have_come).await?;
        let commands = ["getDigest", "previewDigest", "holdDigest", "releaseDigest", "retimeDigest", "dropDigest"];
        self.call_all(&commands).await?;
        let dropped = "/v1/ledger/digests?digest_type=activity&outcome=dropped&user=ann";
        let id = self.listed(dropped, "digest_id").await?;
        self.call_all(&["reopenDigest", "listDigests"]).await?;
        self.call_with("showDigest", &[("id", &id)], "?addresses=true").await?;
        self.sent(&id).await?;
        self.collect("e1").await?;
        self.call_with("deleteByKey", &[], "?why=ticket+812").await?;
        let id = self.listed(dropped, "digest_id").await?;
        self.call("reopenByKey").await?;
        self.sent(&id).await?;
        self.collect("e2").await?;
        self.call("flushDigest").await.map(drop)
    }

    async fn jobs(&mut self) -> Result<()> {
        let job = self.call("postJob").await?;
        let id = job["id"].as_str().context("no id")?;
        self.call("listJobs").await?;
        for operation in ["getJob", "listJobResults", "cancelJob"] {
            self.call_with(operation, &[("id", id)], "").await?;
        }
        Ok(())
    }

    /// Messages wait for the end of a pause, so that there is time to cancel them.
    async fn messages(&mut self) -> Result<()> {
        let paused = self.call("pause").await?;
        let id = paused["pause"]["id"].as_str().context("no id")?;
        self.call_all(&["listPauses", "postMessage"]).await?;
        for retry in self.samples("retryMessage", &[]) {
            self.call("cancelMessage").await?;
            self.send(retry, "").await?;
        }
        self.call_all(&["getMessage", "listMessages"]).await?;
        self.call_with("resume", &[("id", id)], "").await.map(drop)
    }

    /// An event in the signal of another key is a letter that can be emitted; a broken signal is another one.
    async fn dead_letters(&mut self, cli: &CliEnv) -> Result<()> {
        let [ann, bo] = ["ann", "bo"].map(|user| key("activity", user));
        let (temporal, of_bo) = (cli.server.client().await?, "/v1/dead-letters?user=bo");
        signal(&temporal, &bo, json_events([json!(event(&ann, "e3")).to_string().as_str()])).await?;
        let letter = self.listed(of_bo, "id").await?;
        self.call_with("showDeadLetter", &[("id", &letter)], "").await?;
        self.call_with("emitDeadLetter", &[("id", &letter)], "").await?;
        signal(&temporal, &bo, malformed()).await?;
        self.until(of_bo, |listed| (listed["rows"][0]["id"] != letter.as_str()).then_some(())).await?;
        self.call("listDeadLetters").await.map(drop)
    }
}

/// The path with the examples of its parameters, or with these values.
fn filled(path: &str, operation: &Value, values: &[(&str, &str)]) -> String {
    let given: BTreeMap<_, _> = values.iter().copied().collect();
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters = parameters.filter(|parameter| parameter["in"] == "path");
    parameters.fold(path.to_owned(), |path, parameter| {
        let name = parameter["name"].as_str().unwrap_or_default();
        let example = parameter["schema"]["examples"][0].as_str().unwrap_or_default();
        let value = given.get(name).copied().unwrap_or(example).replace('/', "%2F");
        path.replace(&format!("{{{name}}}"), &value)
    })
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn each_example_of_the_document_succeeds_on_a_real_server() -> Result<()> {
    let mut cli = CliEnv::start("after 1d").await?;
    let file = cli.folder.path().join("tidings.toml");
    fs::write(&file, format!("{}choices = [\"weekly mon 08:00\"]\n", fs::read_to_string(&file)?))?;
    cli.import(&[key("activity", "ann"), key("activity", "bo")].into()).await?;
    cli.start_worker()?;
    let mut walk = Walk::new(Api::start(&cli, &TokenScope::ALL.map(TokenScope::name)).await?);
    walk.call_all(&["putRecipient", "postRecipients", "patchRecipient", "getRecipient", "listRecipients"]).await?;
    walk.call_all(&["putSuppression", "getSuppression", "listSuppressions", "deleteSuppression"]).await?;
    walk.digests().await?;
    walk.messages().await?;
    walk.jobs().await?;
    walk.call_all(&["putPreferences", "getPreferences", "putConsent", "getConsent"]).await?;
    walk.call_all(&["getStats", "getReport", "listAudit"]).await?;
    walk.dead_letters(&cli).await?;
    for operation in ["renameRecipient", "mergeRecipient", "deleteRecipient"] {
        walk.call(operation).await?;
        // The next one is about somebody with the same id.
        walk.call("putRecipient").await?;
    }
    let create = ["tokens", "create", "--tenant", "*", "--scope", "stats:read"];
    walk.api.token = cli.run(&create).await?.trim().to_owned();
    walk.call_all(&["listRelays", "getStats"]).await?;
    assert_eq!(walk.left, BTreeSet::new(), "these examples were not sent");
    Ok(())
}
