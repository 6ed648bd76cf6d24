//! `render`: renders a claimed digest's email once and puts it in the outbox.

use jiff::Timestamp;
use tidings_model::{
    records::{AuditActor, CloseRequest, MessageOrigin, MessageRecord, OutboxMessage, Recipient},
    rules::admission::{MissingDecision, wait_for_table},
    settings::{DigestSettings, DisplayLimits},
    step::{RenderAnswer, RenderInput, TooLarge},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_services::{
    deps::{StepServices, now_at_least},
    digest_email::{ComposeOutcome, DigestEmail},
    error::StepError,
    metrics,
};

/// Groups to show, each with its latest item, after a relay found the full email too large.
const FEW_LINES: u32 = 5;

/// Renders and stores the email unless the claim did, or replaces one which a relay found too large. Ends the
/// digest if the recipient is missing or invalid, no shorter email is possible, or the digest type has not
/// been configured for seven days.
///
/// # Errors
/// If the store fails, the digest type is not configured yet, no template works, or the DKIM key cannot sign.
pub async fn run(deps: &StepServices, input: &RenderInput) -> Result<RenderAnswer, StepError> {
    if let Some(too_large) = &input.too_large {
        return render_shorter(deps, input, too_large).await;
    }
    if input.stored {
        return Ok(RenderAnswer::Stored);
    }
    let window = &input.window;
    let now = now_at_least(input.asked_at);
    let Some(settings) = deps.settings.digest(&window.key) else { return without_table(deps, window, now).await };
    let shown = settings.display_limits();
    let facts = deps.kept_facts(&window.key).await?;
    let why = match &facts.recipient {
        None => "the recipient left the directory".to_owned(),
        Some(recipient) => loop {
            let email = DigestEmail { window, facts: &facts, recipient, date: now, message_id: None };
            let contents = deps.store.contents(window, shown).await?;
            match email.compose(deps, &contents).await? {
                ComposeOutcome::Message(mut message) => {
                    if facts.changed_at > contents.claimed_at {
                        // The claim used the preferences at the time. Clearing the hash makes the first
                        // attempt compare again.
                        message.made_from.clear();
                    }
                    if deps.store.put_message(&message, Some(contents.items)).await? {
                        return Ok(RenderAnswer::Stored);
                    }
                }
                ComposeOutcome::Undeliverable { why } => break why,
            }
        },
    };
    end(deps, window, failed(why), now).await
}

async fn render_shorter(
    deps: &StepServices,
    input: &RenderInput,
    TooLarge { attempt, why }: &TooLarge,
) -> Result<RenderAnswer, StepError> {
    let RenderInput { window, asked_at, .. } = input;
    if let Some(MessageRecord { envelope_to, message_id, made_at, .. }) = deps.store.message(window.digest_id).await? {
        let large = OversizedEmail { address: &envelope_to, message_id: &message_id, date: made_at };
        if shorten_email(deps, window, *attempt, large, |error| matches!(error, StepError::Store(_))).await? {
            return Ok(RenderAnswer::Stored);
        }
    }
    end(deps, window, failed(why.clone()), now_at_least(*asked_at)).await
}

/// The digest type was configured at the claim, so its seven days start there.
async fn without_table(deps: &StepServices, window: &Window, now: Timestamp) -> Result<RenderAnswer, StepError> {
    deps.leave_to_other_worker(&window.key).await?;
    let claimed_at = deps.store.digest(window.digest_id).await?.and_then(|digest| digest.claimed_at);
    match wait_for_table(&window.key.digest_type, claimed_at, now) {
        MissingDecision::Ends(closed) => end(deps, window, closed, now).await,
        MissingDecision::Waits { .. } => Err(StepError::UnknownType(window.key.digest_type.clone())),
    }
}

#[derive(Clone, Copy)]
pub(super) struct OversizedEmail<'a> {
    pub address: &'a str,
    pub message_id: &'a str,
    pub date: Timestamp,
}

/// Replaces the email of attempt `number` with a shorter one to the same address. Returns `false` if this is
/// impossible, or was already done.
///
/// # Errors
/// If the store fails, or rendering fails with an error for which `handed_on` is `true`.
pub(super) async fn shorten_email(
    deps: &StepServices,
    window: &Window,
    number: u32,
    large: OversizedEmail<'_>,
    handed_on: fn(&StepError) -> bool,
) -> Result<bool, StepError> {
    match compose_shorter(deps, window, large).await {
        Ok(Some(short)) => Ok(deps.store.shrink_message(&short, number).await?),
        Ok(None) => Ok(false),
        Err(error) if handed_on(&error) => Err(error),
        Err(error) => {
            tracing::warn!(why = %error, "oversized email cannot be shortened");
            Ok(false)
        }
    }
}

async fn compose_shorter(
    deps: &StepServices,
    window: &Window,
    OversizedEmail { address, message_id, date }: OversizedEmail<'_>,
) -> Result<Option<OutboxMessage>, StepError> {
    let facts = deps.kept_facts(&window.key).await?;
    let Some(recipient) = &facts.recipient else { return Ok(None) };
    let recipient = &Recipient { address: address.to_owned(), ..recipient.clone() };
    let contents = deps.store.contents(window, shorter_groups(deps.digest_settings(&window.key)?)).await?;
    let email = DigestEmail { window, facts: &facts, recipient, date, message_id: Some(message_id) };
    match email.compose(deps, &contents).await? {
        ComposeOutcome::Message(message) => Ok(Some(*message)),
        ComposeOutcome::Undeliverable { .. } => Ok(None),
    }
}

pub(super) fn shorter_groups(settings: &DigestSettings) -> DisplayLimits<'_> {
    DisplayLimits { lines: FEW_LINES, items: 1, ..settings.display_limits() }
}

const fn failed(why: String) -> WindowEnd {
    WindowEnd { outcome: DigestOutcome::Failed, why }
}

async fn end(
    deps: &StepServices,
    window: &Window,
    closed: WindowEnd,
    now: Timestamp,
) -> Result<RenderAnswer, StepError> {
    let closing = CloseRequest {
        window,
        events: &[],
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now,
    };
    let closed = deps.store.close_digest(closing).await?.closed;
    metrics::alert_ended(window.digest_id, &MessageOrigin::Digest(window.key.clone()), &closed);
    Ok(RenderAnswer::Nothing(closed))
}
