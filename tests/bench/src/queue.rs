//! The usual alternative to Tidings: events in a table, one row for each digest, `FOR UPDATE SKIP LOCKED`. It makes and
//! sends the same emails. A crash after the final dot sends an email twice, a retry renders again, and it has no
//! fencing and no status query.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use jiff::{Timestamp, tz::TimeZone};
use sqlx::{PgPool, Row, postgres::PgPoolOptions};
use tidings_harness::env::key;
use tidings_mail::{
    mime::{MessageDraft, MessageKind, MessageParty, ThreadPosition},
    render::{TemplateRenderer, TemplateView, ViewInput, ViewLinks},
    smtp::{PoolLimits, SendLane, SmtpMailer, SmtpTimeouts},
};
use tidings_model::{
    attempt::AttemptClass,
    records::{DigestContents, DigestLine, LineItem, Recipient},
    settings::TenantBrand,
    window::Window,
};
use tokio::time::Instant;
use uuid::Uuid;

const TABLES: &str = "
    CREATE TABLE digests (id BIGSERIAL PRIMARY KEY, user_id TEXT NOT NULL, due_at TIMESTAMPTZ NOT NULL, sent_at TIMESTAMPTZ);
    CREATE INDEX ON digests (due_at) WHERE sent_at IS NULL;
    CREATE TABLE events (digest_id BIGINT NOT NULL REFERENCES digests, event_id TEXT NOT NULL, category TEXT NOT NULL,
        entity_type TEXT NOT NULL, entity_id TEXT NOT NULL, actor TEXT NOT NULL, occurred_at TIMESTAMPTZ NOT NULL,
        UNIQUE (digest_id, event_id))";
const OPEN: &str = "INSERT INTO digests (user_id, due_at) SELECT 'user-' || n, now() FROM generate_series(1, $1) n";
const EMIT: &str = "INSERT INTO events SELECT id, 'e' || n, 'comment', 'page', 'plans', 'Bob', now()
    FROM digests, generate_series(1, $1) n";
const CLAIM: &str = "SELECT id, user_id FROM digests WHERE sent_at IS NULL AND due_at <= now() ORDER BY due_at LIMIT 1
    FOR UPDATE SKIP LOCKED";
const GROUPS: &str = "SELECT category, entity_type, entity_id, COUNT(*) AS count, (array_agg(actor ORDER BY occurred_at DESC))[1] AS actor
    FROM events WHERE digest_id = $1 GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 50";
const SENT: &str = "UPDATE digests SET sent_at = now() WHERE id = $1";

/// The tables, filled with digests that are due.
pub struct Queue {
    pool: PgPool,
    renderer: TemplateRenderer,
    mailer: SmtpMailer,
    workers: usize,
}

impl Queue {
    /// Fills an empty database with digests of this many events.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn filled(database: &str, sink: &str, digests: usize, events: usize) -> Result<Self> {
        let limits = PoolLimits { messages: u32::MAX, ..PoolLimits::default() };
        let workers = limits.connections;
        let pool = PgPoolOptions::new().max_connections(u32::try_from(workers)?).connect(database).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        sqlx::query(OPEN).bind(i32::try_from(digests)?).execute(&pool).await?;
        sqlx::query(EMIT).bind(i32::try_from(events)?).execute(&pool).await?;
        let mailer = SmtpMailer::new(sink.parse()?, limits, SmtpTimeouts::default())?;
        Ok(Self { pool, renderer: TemplateRenderer::new(None)?, mailer, workers })
    }

    /// Sends digests until none is due. Answers with the seconds that this took.
    ///
    /// # Errors
    /// When the database or the relay fails.
    pub async fn drain(self) -> Result<f64> {
        let (queue, started) = (Arc::new(self), Instant::now());
        let workers = (0..queue.workers).map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move {
                while queue.one().await? {}
                anyhow::Ok(())
            })
        });
        for worker in try_join_all(workers).await? {
            worker?;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// Sends one digest in one transaction. Answers `false` if none is due.
    async fn one(&self) -> Result<bool> {
        let mut tx = self.pool.begin().await?;
        let Some(row) = sqlx::query(CLAIM).fetch_optional(&mut *tx).await? else { return Ok(false) };
        let (id, user): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        let groups = sqlx::query(GROUPS).bind(id).fetch_all(&mut *tx).await?;
        let lines = groups.iter().map(group).collect::<Result<Vec<_>>>()?;
        let bytes = self.mail(&user, lines)?;
        let to = format!("{user}@example.net");
        let slot = self.mailer.acquire_slot(SendLane::Digests, &to).await.context("the mailer is closed")?;
        let ready = slot.offer(FROM, &to, &bytes).await.map_err(|delivery| anyhow::anyhow!(delivery.detail))?;
        let delivery = ready.send_dot().await;
        ensure!(delivery.class == AttemptClass::Sent, "{}", delivery.detail);
        sqlx::query(SENT).bind(id).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(true)
    }

    fn mail(&self, user: &str, lines: Vec<DigestLine>) -> Result<Vec<u8>> {
        let items = lines.iter().map(|line| line.count).sum();
        let contents =
            DigestContents { claimed_at: None, items, line_count: lines.len() as u64, counts: [].into(), lines };
        let now = Timestamp::now();
        let window = Window { key: key("activity", user), digest_id: Uuid::new_v4(), opened_at: now, due_at: now };
        let recipient = Recipient {
            tenant: "acme".to_owned(),
            user: user.to_owned(),
            address: String::new(),
            name: String::new(),
            zone: String::new(),
            locale: String::new(),
        };
        let input = ViewInput {
            contents: &contents,
            window: &window,
            recipient: &recipient,
            zone: &TimeZone::UTC,
            title: None,
            cadence: "daily 08:00",
            links: &ViewLinks::default(),
            brand: &TenantBrand::default(),
            phrases: self.renderer.phrases([]),
        };
        let mail = self.renderer.render("activity", &TemplateView::new(&input))?;
        let draft = MessageDraft {
            from: MessageParty { name: "Tidings", address: &FROM.parse()? },
            to: MessageParty { name: "", address: &format!("{user}@example.net").parse()? },
            reply_to: None,
            subject: &mail.subject,
            html: Some(&mail.html),
            text: &mail.text,
            id: window.digest_id,
            of: MessageKind::Digest {
                tenant: "acme",
                digest_type: "activity",
                events: items,
                list_host: "tidings.example",
                threading: ThreadPosition::Alone,
            },
            date: now,
            message_domain: "tidings.example",
            unsubscribe: None,
            token: None,
            attachments: &[],
        };
        Ok(draft.compose()?.bytes)
    }
}

const FROM: &str = "digest@tidings.example";

fn group(row: &sqlx::postgres::PgRow) -> Result<DigestLine> {
    let (now, actor): (_, String) = (Timestamp::now(), row.try_get("actor")?);
    Ok(DigestLine {
        category: row.try_get("category")?,
        section: None,
        entity_type: row.try_get("entity_type")?,
        entity_id: row.try_get("entity_id")?,
        count: u64::try_from(row.try_get::<i64, _>("count")?).context("a negative count")?,
        counts: [].into(),
        first_at: now,
        last_at: now,
        actor_count: 1,
        actors: vec![actor.clone()],
        latest: vec![LineItem { count: 1, at: now, actor, payload: serde_json::Map::new() }],
    })
}
