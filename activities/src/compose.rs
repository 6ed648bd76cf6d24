//! `render`: the mail of a claimed digest, made once and put in the outbox.

use jiff::Timestamp;
use tidings_mail::{
    mailer::{self, Draft, Of, Person},
    renderer::{Input, Links, Rendered as Mail, View},
};
use tidings_model::{
    contract::{Closed, Outcome, RenderInput, Rendered, Window},
    records::{Closing, Contents, Facts, Message, Origin, Recipient},
    rules::effective::Effective,
    settings::{DigestSettings, Streams},
};

use crate::{
    alert,
    digest::{DigestActivities, Error, now},
};

/// Lines of a mail that a relay found too large in full.
const FEW_LINES: u32 = 5;

impl DigestActivities {
    pub async fn compose(&self, input: &RenderInput) -> Result<Rendered, Error> {
        let window = &input.window;
        let now = now(input.asked_at);
        let lines = self.digest(&window.key)?.max_items;
        let facts = self.facts(&window.key).await?;
        let end = |why: &str| Closed { outcome: Outcome::Failed, why: why.to_owned() };
        let closed = match &facts.recipient {
            None => end("the recipient left the directory"),
            Some(recipient) => loop {
                match self.message(window, lines, now, &facts, recipient).await? {
                    Ok((message, items)) if self.store.put_message(&message, Some(items)).await? => {
                        return Ok(Rendered::Stored);
                    }
                    // It would not tell of what the digest has.
                    Ok(_) => {}
                    Err(why) => break end(&why),
                }
            },
        };
        let closing = Closing { window, events: &[], closed: &closed, by: "", return_events: false, now };
        let closed = self.store.close(closing).await?.closed;
        alert::ended(window.digest_id, &Origin::Digest(window.key.clone()), &closed);
        Ok(Rendered::Nothing(closed))
    }

    /// Puts a mail with few lines in the place of one that attempt `number` found to be too large for the relay. `false`:
    /// that would not help, or was done before.
    pub(crate) async fn shrink(&self, window: &Window, number: u32, large: &Message) -> Result<bool, Error> {
        let facts = self.facts(&window.key).await?;
        let Some(recipient) = &facts.recipient else { return Ok(false) };
        let few = self.message(window, FEW_LINES, large.created_at, &facts, recipient).await?;
        let Ok((few, _)) = few else { return Ok(false) };
        if few.envelope_to != large.envelope_to || few.bytes.len() >= large.bytes.len() {
            return Ok(false);
        }
        Ok(self.store.shrink_message(&few, number).await?)
    }

    /// The message and how many events it tells of, or why there can be none for this recipient. `date`: when it was rendered
    /// first.
    async fn message(
        &self,
        window: &Window,
        lines: u32,
        date: Timestamp,
        facts: &Facts,
        recipient: &Recipient,
    ) -> Result<Result<(Message, u64), String>, Error> {
        let settings = self.digest(&window.key)?;
        let contents = self.store.contents(window, lines).await?;
        let rendered = self.mail(window, &contents, settings, facts, recipient)?;
        if rendered.fallback.is_some() {
            // Why may quote an event; `tidings template check` says it of the sample.
            tracing::error!(alert = "template_fallback", template = settings.template, "a template does not work");
        }
        let stream = &self.settings.streams.bulk;
        let sender = &stream.sender;
        let draft = Draft {
            from: Person { name: &sender.name, address: &sender.address },
            to: Person { name: &recipient.name, address: &recipient.address },
            reply_to: sender.reply_to.as_deref(),
            subject: &rendered.subject,
            html: Some(&rendered.html),
            text: &rendered.text,
            id: window.digest_id,
            of: Of::Digest {
                tenant: &window.key.tenant,
                digest_type: &window.key.digest_type,
                events: contents.items,
                list_host: &sender.domain,
            },
            date,
            message_domain: &sender.domain,
        };
        let composed = match draft.compose() {
            Ok(composed) => composed,
            Err(mailer::Error::Message { part: "recipient address", problem }) => {
                return Ok(Err(format!("the directory's address of the recipient {problem}")));
            }
            Err(error) => return Err(Error::Render(error.to_string())),
        };
        let message = Message {
            id: window.digest_id,
            origin: Origin::Digest(window.key.clone()),
            stream: Streams::BULK.to_owned(),
            envelope_from: sender.address.clone(),
            envelope_to: composed.envelope_to,
            message_id: composed.message_id,
            subject: composed.subject,
            bytes: self
                .signers
                .sign(Streams::BULK, composed.bytes, date)
                .map_err(|error| Error::Render(error.to_string()))?,
            template: rendered.template,
            created_at: date,
        };
        Ok(Ok((message, contents.items)))
    }

    /// The mail without its headers.
    pub(crate) fn mail(
        &self,
        window: &Window,
        contents: &Contents,
        settings: &DigestSettings,
        facts: &Facts,
        recipient: &Recipient,
    ) -> Result<Mail, Error> {
        let Effective { cadence, zone, .. } = Effective::new(settings, facts);
        let cadence = cadence.to_string();
        let links = Links { more_url: settings.more_url.clone(), ..Links::default() };
        let view = View::new(&Input { contents, window, recipient, zone: &zone, cadence: &cadence, links: &links });
        self.renderer.render(&settings.template, &view).map_err(|error| Error::Render(error.to_string()))
    }
}
