//! Open and click tracking by digest type. Off by default (rule 44).

closed_set! {
    pub enum TrackedAction {
        Opens = "opens",
        Clicks = "clicks",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackingSettings {
    pub opens: bool,
    pub clicks: bool,
}

impl TrackingSettings {
    #[must_use]
    pub const fn any(self) -> bool {
        self.opens || self.clicks
    }

    pub fn tracked_actions(self) -> impl Iterator<Item = TrackedAction> {
        [(TrackedAction::Opens, self.opens), (TrackedAction::Clicks, self.clicks)]
            .into_iter()
            .filter_map(|(counted, on)| on.then_some(counted))
    }
}

impl FromIterator<TrackedAction> for TrackingSettings {
    fn from_iter<I: IntoIterator<Item = TrackedAction>>(all: I) -> Self {
        all.into_iter().fold(Self::default(), |track, counted| match counted {
            TrackedAction::Opens => Self { opens: true, ..track },
            TrackedAction::Clicks => Self { clicks: true, ..track },
        })
    }
}
