//! Counting of openings and clicks, by digest type. Nothing is counted by default (rule 44).

closed_set! {
    /// An action of a reader that is counted.
    pub enum Counted {
        /// The message is opened.
        Opens = "opens",
        /// A link is followed.
        Clicks = "clicks",
    }
}

/// The actions that are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    pub opens: bool,
    pub clicks: bool,
}

impl Track {
    /// Tells if anything is counted.
    #[must_use]
    pub const fn any(self) -> bool {
        self.opens || self.clicks
    }

    /// The actions, in order.
    pub fn counted(self) -> impl Iterator<Item = Counted> {
        [(Counted::Opens, self.opens), (Counted::Clicks, self.clicks)]
            .into_iter()
            .filter_map(|(counted, on)| on.then_some(counted))
    }
}

impl FromIterator<Counted> for Track {
    fn from_iter<I: IntoIterator<Item = Counted>>(all: I) -> Self {
        all.into_iter().fold(Self::default(), |track, counted| match counted {
            Counted::Opens => Self { opens: true, ..track },
            Counted::Clicks => Self { clicks: true, ..track },
        })
    }
}
