//! An operator restores what Temporal lost with its database, as docs/operations.md says: digests and messages without an end by
//! their ids, and events by a replay of the inbox.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use serde_json::Value;
use tidings_model::Key;
use tokio::time::sleep;

use super::interventions::{AGAIN, Desk, WHY};

/// Commands that run at the same time.
const AT_ONCE: usize = 4;
/// More digests and messages than a run has.
const ALL: &str = "1000000";
/// The option that a refusal names if an attempt was past the dot.
const MAY_DUPLICATE: &str = "--may-duplicate";

impl Desk {
    /// Restores everything, repeatedly until each command succeeds. Answers `true` if the inbox had events to replay.
    ///
    /// # Errors
    /// When a command ends with an undocumented exit code.
    pub(super) async fn restore(&self, since: Timestamp) -> Result<bool> {
        self.until_done(&["migrate"]).await?;
        self.restore_digests(since).await?;
        let replayed = self.listed(&["inbox", "replay", "--since", &since.to_string(), "--json"]).await?;
        Ok(replayed.iter().any(|line| line["replayed"].as_u64() > Some(0)))
    }

    /// Reopens the digests that have no end or that returned their events, and sends the single messages that have no end. One that a
    /// workflow has is refused. Answers `false` if all were refused.
    ///
    /// # Errors
    /// When a command ends with an undocumented exit code.
    pub(super) async fn restore_digests(&self, since: Timestamp) -> Result<bool> {
        if self.tidings.losses() == 0 {
            return Ok(false);
        }
        let since = since.to_string();
        let mut orders = Vec::new();
        for filter in [["--state", "open"], ["--state", "claimed"], ["--state", "rendered"], ["--outcome", "failed"]] {
            let [name, value] = filter;
            let list = ["digest", "list", name, value, "--since", &since, "--limit", ALL, "--json"];
            for digest in self.listed(&list).await? {
                let is_left = value != "failed" || !digest["returned_at"].is_null();
                let key = serde_json::from_value::<Key>(digest["key"].clone());
                if let (Ok(key), Some(id), true) = (key, digest["digest_id"].as_str(), is_left) {
                    orders.push(["digest", "reopen", &key.to_string(), id].map(str::to_owned).to_vec());
                }
            }
        }
        for state in ["queued", "sending", "deferred"] {
            for message in self.listed(&["messages", "list", "--state", state, "--limit", ALL, "--json"]).await? {
                if let (Some(id), true) = (message["id"].as_str(), message["of"]["single"].is_object()) {
                    orders.push(["messages", "retry", id].map(str::to_owned).to_vec());
                }
            }
        }
        let orders = stream::iter(orders).map(|order| self.insist(order)).buffer_unordered(AT_ONCE);
        orders.try_fold(false, async |any, one| Ok(any || one)).await
    }

    /// Gives an order, also where the recipient may have the email already. Answers `false` if it was refused.
    async fn insist(&self, order: Vec<String>) -> Result<bool> {
        let words = [&order[..], &["--why", WHY].map(str::to_owned)].concat();
        let mut output = self.tell(&words).await?;
        if String::from_utf8_lossy(&output.stdout).contains(MAY_DUPLICATE) {
            output = self.tell(&[words, vec![MAY_DUPLICATE.to_owned()]].concat()).await?;
        }
        // A command that a fault disturbed has no answer.
        Ok(output.status.success() || output.stdout.is_empty())
    }

    /// The objects that a command prints.
    async fn listed(&self, words: &[&str]) -> Result<Vec<Value>> {
        let said = self.until_done(words).await?;
        Ok(serde_json::Deserializer::from_slice(&said).into_iter().collect::<Result<_, _>>()?)
    }

    /// Runs a command repeatedly until it succeeds. Answers with its output.
    async fn until_done(&self, words: &[&str]) -> Result<Vec<u8>> {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        loop {
            let output = self.tell(&words).await?;
            if output.status.success() {
                return Ok(output.stdout);
            }
            sleep(AGAIN).await;
        }
    }
}
