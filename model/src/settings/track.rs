//! Open and click tracking by digest type. Off by default (rule 44).

closed_set! {
    pub enum Counted {
        Opens = "opens",
        Clicks = "clicks",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    pub opens: bool,
    pub clicks: bool,
}

impl Track {
    #[must_use]
    pub const fn any(self) -> bool {
        self.opens || self.clicks
    }

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
