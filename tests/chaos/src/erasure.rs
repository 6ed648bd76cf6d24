//! The erasure of a person while their events go on coming.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    act::{Act, Intervention},
    files::Files,
    interventions::{AGAIN, Desk, WHY},
    settings::TENANTS,
};

impl Desk {
    /// Erases the person of the plan and imports them again, so that later events have an address. Answers `false` if something is
    /// left, because of a fault or of events that came meanwhile.
    pub(super) async fn erase_and_import(&self, tenant: &str) -> Result<bool> {
        let erased = self.erase(tenant).await?;
        self.import().await?;
        Ok(erased)
    }

    /// Imports everyone. A fault may prevent it.
    pub(super) async fn import(&self) -> Result<bool> {
        let words = ["recipients", "import", "people.csv"];
        self.tell(&words.map(str::to_owned)).await.map(|output| output.status.success())
    }

    /// Erases the person for good when nothing comes any more, and notes the address for the checker.
    ///
    /// # Errors
    /// When something is left after `within`.
    pub(super) async fn erase_at_the_end(&self, files: &Files, within: Duration) -> Result<()> {
        let erases = |act: &Act| matches!(act, Act::Intervention(Intervention::Erase, _));
        if !self.plan.steps.iter().any(|(_, act)| erases(act)) {
            return Ok(());
        }
        let deadline = Instant::now() + within;
        for tenant in TENANTS {
            while !self.erase(tenant).await? {
                ensure!(Instant::now() < deadline, "{tenant}/{} cannot be erased", self.plan.erased());
                sleep(AGAIN).await;
            }
            let address = format!("{}@{tenant}.test", self.plan.erased());
            files.append("erased.ndjson", &json!({"tenant": tenant, "address": address}))?;
        }
        Ok(())
    }

    async fn erase(&self, tenant: &str) -> Result<bool> {
        let person = format!("{tenant}/{}", self.plan.erased());
        let words = ["recipients", "erase", &person, "--yes", "--why", WHY];
        self.tell(&words.map(str::to_owned)).await.map(|output| output.status.success())
    }
}
