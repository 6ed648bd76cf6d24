//! The files that make a message together: what extends, includes and uses what.

use std::collections::BTreeSet;

use super::{
    file::File,
    structure::{Kind, Region, said, word},
};
use crate::render::code::Code;

/// The file of a digest type from which its HTML is rendered.
const ROOT: &str = "/body.html";

/// The place of a file among the others.
pub(super) struct Member {
    /// The messages in which the file takes part, as numbers of their root files.
    roots: BTreeSet<usize>,
    /// The number of layouts below the file. Their styles come first.
    pub depth: usize,
    /// The file stands inside elements of other files.
    pub is_inside: bool,
    /// The file's own text is not in every message in which it takes part.
    is_optional: bool,
    /// Its blocks that a child replaces.
    replaced: BTreeSet<String>,
}

/// The use of one file by another.
struct Link {
    to: usize,
    kind: LinkKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkKind {
    Extends,
    Includes,
    /// A part of the message includes it, which may be left out.
    MayInclude,
    Uses,
}

/// Finds the place of each file.
pub(super) fn members(files: &[File<'_>]) -> Vec<Member> {
    let links: Vec<_> = files.iter().map(|file| links(file, files)).collect();
    let mut members: Vec<_> = (0..files.len()).map(|at| member(at, files, &links)).collect();
    for (root, _) in files.iter().enumerate().filter(|(_, file)| file.name.ends_with(ROOT)) {
        for at in reached(root, &links) {
            members[at].roots.insert(root);
        }
    }
    members
}

impl Member {
    /// Reports if a message may have both files.
    pub fn meets(&self, other: &Self) -> bool {
        !self.roots.is_disjoint(&other.roots)
    }

    /// Reports if each message with the other file has this one.
    pub fn is_with(&self, other: &Self) -> bool {
        other.roots.is_subset(&self.roots)
    }

    /// Reports if the text at a place is in each message that has the file, and there once.
    pub fn always_has(&self, file: &File<'_>, at: usize) -> bool {
        let blocks = file.blocks_around(at);
        !self.is_optional && blocks.is_some_and(|blocks| blocks.iter().all(|name| !self.replaced.contains(*name)))
    }
}

fn member(at: usize, files: &[File<'_>], links: &[Vec<Link>]) -> Member {
    let to_it = || links.iter().flatten().filter(move |link| link.to == at);
    let extended = |from: usize| links[from].iter().find(|link| link.kind == LinkKind::Extends).map(|link| link.to);
    let below: Vec<_> = std::iter::successors(extended(at), |below| extended(*below)).take(files.len()).collect();
    let children = (0..files.len()).filter(|child| {
        std::iter::successors(extended(*child), |below| extended(*below)).take(files.len()).any(|below| below == at)
    });
    let blocks = |child: usize| {
        files[child].regions.iter().filter_map(|region| match &region.kind {
            Kind::Block(name) => Some(name.clone()),
            _ => None,
        })
    };
    Member {
        roots: BTreeSet::new(),
        depth: below.len(),
        is_inside: !below.is_empty() || to_it().any(|link| link.kind != LinkKind::Extends),
        is_optional: to_it().any(|link| [LinkKind::MayInclude, LinkKind::Uses].contains(&link.kind)),
        replaced: children.flat_map(blocks).collect(),
    }
}

/// The file and all that it has of others.
fn reached(root: usize, links: &[Vec<Link>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(from) = next.pop() {
        next.extend(links[from].iter().map(|link| link.to).filter(|to| reached.insert(*to)));
    }
    reached
}

fn links(file: &File<'_>, files: &[File<'_>]) -> Vec<Link> {
    let named = |name: &str| files.iter().position(|file| file.name == name);
    let of_code = |Code { place, .. }: &Code| {
        let said = said(&file.source[place.clone()]);
        let (first, rest) = word(said);
        let names: Vec<_> = quoted(rest).filter_map(named).collect();
        let certain = names.len() == 1 && !rest.contains("ignore missing") && file.blocks_around(place.start).is_some();
        let kind = match first {
            "extends" => LinkKind::Extends,
            "include" if certain => LinkKind::Includes,
            "include" => LinkKind::MayInclude,
            _ => return components(said, files).map(|to| Link { to, kind: LinkKind::Uses }).collect::<Vec<_>>(),
        };
        names.into_iter().map(|to| Link { to, kind }).collect()
    };
    file.code.iter().flat_map(of_code).collect()
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split(['"', '\'', '`']).skip(1).step_by(2)
}

/// The files that define the components which the code calls.
fn components<'a>(said: &'a str, files: &'a [File<'_>]) -> impl Iterator<Item = usize> + 'a {
    let called = said.split('<').skip(1).map(|call| word(call).0).filter(|name| !name.is_empty());
    called.flat_map(move |name| {
        let defines = move |region: &Region| matches!(&region.kind, Kind::Component(own) if own == name);
        (0..files.len()).filter(move |at| files[*at].regions.iter().any(defines))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_messages_that_extend_include_or_use_it() {
        let files = [
            ("a/body.html", "{% extends \"layout.html\" %}{% block b %}{{ <Chip n={1} /> }}{% endblock %}"),
            (
                "c/body.html",
                "{% if x %}{% include 'part.html' %}{% endif %}{% block d %}{% include \"all.html\" %}{% endblock %}",
            ),
            ("layout.html", "{% block b %}y{% endblock %}{% block e %}x{% endblock %}"),
            ("part.html", "{{ 1 <2 }}"),
            ("all.html", ""),
            ("chips.html", "{% component Chip(n) %}{{ n }}{% endcomponent Chip %}"),
        ]
        .map(|(name, source)| File::new(name, source, true));
        let members = members(&files);
        let roots: Vec<_> = members.iter().map(|member| member.roots.iter().copied().collect::<Vec<_>>()).collect();
        assert_eq!(roots, [vec![0], vec![1], vec![0], vec![1], vec![1], vec![0]]);
        assert_eq!(members.iter().map(|member| member.depth).collect::<Vec<_>>(), [1, 0, 0, 0, 0, 0]);
        assert_eq!(
            members.iter().map(|member| member.is_inside).collect::<Vec<_>>(),
            [true, false, false, true, true, true]
        );
        let (layout, text) = (&files[2], &files[2].source);
        assert!(members[2].always_has(layout, text.find('x').unwrap()));
        assert!(!members[2].always_has(layout, text.find("b %}").unwrap() + 4));
        assert!(!members[3].always_has(&files[3], 0) && members[4].always_has(&files[4], 0));
        assert!(members[2].is_with(&members[5]) && !members[2].meets(&members[3]));
    }
}
