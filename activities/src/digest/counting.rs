//! The addresses of a message that count openings and clicks, where its digest type says so.

use tidings_mail::render::{Click, Tracker};
use tidings_model::{
    ClickLink, OpenLink,
    limits::COUNTED_LINK_CHARS,
    settings::{Settings, Track},
};
use uuid::Uuid;

/// Makes the addresses of one message. They are the same each time.
pub(super) struct Counting<'a> {
    click: Option<Box<Click<'a>>>,
    picture: Option<String>,
}

impl<'a> Counting<'a> {
    /// Counts what `track` says. Without keys and a gateway nothing is counted.
    pub fn new(settings: &'a Settings, track: Track, tenant: &'a str, message: Uuid) -> Self {
        let gateway = settings.pages.public_url.as_deref().zip(settings.link_keys.as_ref());
        let click = gateway.filter(|_| track.clicks).map(|(address, keys)| {
            let counted = move |target: &str| {
                let link = ClickLink { tenant: tenant.to_owned(), message, target: target.to_owned() };
                let counted = format!("{address}/c/{}", link.token(keys)?);
                (counted.len() <= COUNTED_LINK_CHARS).then_some(counted)
            };
            Box::new(counted) as Box<Click<'a>>
        });
        let picture = gateway.filter(|_| track.opens).and_then(|(address, keys)| {
            Some(format!("{address}/o/{}", OpenLink { tenant: tenant.to_owned(), message }.token(keys)?))
        });
        Self { click, picture }
    }

    /// Tells if the message has a picture that counts openings.
    pub const fn counts_openings(&self) -> bool {
        self.picture.is_some()
    }

    pub fn tracker(&self) -> Tracker<'_> {
        Tracker { click: self.click.as_deref(), picture: self.picture.as_deref() }
    }
}
