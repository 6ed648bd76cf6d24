//! A file of HTML, read once.

use super::structure::{Kind, Region, regions};
use crate::render::code::{Code, blank, code};

/// A file of HTML.
pub struct File<'s> {
    /// `activity/body.html`
    pub name: &'s str,
    pub source: &'s str,
    /// The file is the team's, and its styles are put into attributes.
    pub own: bool,
    pub(super) code: Vec<Code>,
    /// The source without its code; every other byte keeps its place.
    pub(super) blank: String,
    pub(super) regions: Vec<Region>,
}

impl<'s> File<'s> {
    pub fn new(name: &'s str, source: &'s str, own: bool) -> Self {
        let code = code(source);
        let (blank, regions) = (blank(source, &code), regions(source, &code));
        Self { name, source, own, code, blank, regions }
    }

    /// The code between two bytes.
    pub(super) fn code_in(&self, from: usize, to: usize) -> impl Iterator<Item = &Code> {
        self.code.iter().filter(move |code| code.place.start < to && from < code.place.end)
    }

    /// The blocks around a place. `None`: the place is not in every message, or several times.
    pub(super) fn blocks_around(&self, at: usize) -> Option<Vec<&str>> {
        let around = self.regions.iter().filter(|region| region.contains(at));
        around
            .map(|region| match &region.kind {
                Kind::Block(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }
}
