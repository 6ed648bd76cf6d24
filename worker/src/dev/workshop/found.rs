//! The findings of `tidings template check`, for a page.

use std::path::Path;

use serde::Serialize;
use tidings_mail::render::{Problem, Renderer};

/// The findings of `template check`.
#[derive(Serialize)]
pub(super) struct Found {
    faults: Vec<Finding>,
    warnings: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    place: String,
    problem: String,
}

impl Found {
    /// The findings about all templates and words.
    pub fn everywhere(renderer: &Renderer) -> Self {
        Self { faults: findings(renderer.check()), warnings: findings(renderer.warnings()) }
    }

    /// The findings about one template and the files that templates share.
    pub fn about(renderer: &Renderer, name: &str, folder: Option<&Path>) -> Self {
        let warnings = renderer.warnings().into_iter().filter(|warning| concerns(&warning.place, folder, name));
        Self { faults: findings(renderer.check_template(name)), warnings: findings(warnings) }
    }
}

fn findings(problems: impl IntoIterator<Item = Problem>) -> Vec<Finding> {
    problems.into_iter().map(|Problem { place, problem }| Finding { place, problem }).collect()
}

/// Reports if a place, such as `templates/reviews/body.html:12`, is of this template or of a file that templates share.
fn concerns(place: &str, folder: Option<&Path>, name: &str) -> bool {
    let inside = folder.and_then(|folder| Path::new(place).strip_prefix(folder).ok());
    let of = inside.and_then(Path::parent);
    of.is_none_or(|of| of == Path::new("") || of == Path::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_concerns_its_template_or_all() {
        let folder = Some(Path::new("own"));
        for (place, concerned) in [
            ("own/reviews/body.html:12", true),
            ("own/layout.html:1", true),
            ("own/other/body.html:12", false),
            ("elsewhere", true),
        ] {
            assert_eq!(concerns(place, folder, "reviews"), concerned, "{place}");
        }
    }
}
