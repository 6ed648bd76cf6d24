//! Explains why a message cannot be rendered, and lists findings from `tidings template check`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;
use tidings_mail::render::{TemplateError, TemplateProblem, TemplateRenderer};

const AROUND: usize = 2;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct WorkshopFault {
    pub place: String,
    pub problem: String,
    pub remedy: &'static str,
    pub lines: Vec<SourceLine>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct SourceLine {
    number: usize,
    text: String,
    has_fault: bool,
}

impl WorkshopFault {
    pub fn new(place: &str, problem: impl ToString, remedy: &'static str) -> Self {
        Self { place: place.to_owned(), problem: problem.to_string(), remedy, lines: Vec::new() }
    }

    pub fn of_templates(error: &TemplateError, folder: Option<&Path>) -> Self {
        match error {
            TemplateError::Read { path, source } => {
                Self::new(&path.display().to_string(), source, "Let tidings dev read this file or folder.")
            }
            TemplateError::Words(words) => {
                Self::new("words", words, "Correct the words file. This page reloads when a file changes.")
            }
            TemplateError::Missing { file } => {
                let problem = format!("there is no {file}");
                Self::new(file, problem, "Add the file: a template has subject.txt, body.html and body.txt.")
            }
            TemplateError::Template { place, problem } => {
                let remedy = "Correct it there. This page reloads when a file changes.";
                Self { lines: lines_around(place, folder), ..Self::new(place, problem, remedy) }
            }
            TemplateError::Unknown { names, .. } => {
                let problem = format!("there is no such template; there are: {}", names.join(", "));
                Self::new("the address", problem, "Choose a template from the list, or add a folder of this name.")
            }
        }
    }
}

fn lines_around(place: &str, folder: Option<&Path>) -> Vec<SourceLine> {
    let found = || {
        let (path, line) = place.rsplit_once(':')?;
        let (path, line) = (PathBuf::from(path), line.parse::<usize>().ok()?);
        let text = path.starts_with(folder?).then(|| fs::read_to_string(&path).ok())??;
        let first = line.saturating_sub(AROUND).max(1);
        let shown = text.lines().enumerate().map(|(at, text)| (at + 1, text));
        let shown = shown.filter(|(number, _)| (first..=line + AROUND).contains(number));
        let line =
            |(number, text): (usize, &str)| SourceLine { number, text: text.to_owned(), has_fault: number == line };
        Some(shown.map(line).collect())
    };
    found().unwrap_or_default()
}

#[derive(Serialize)]
pub(super) struct TemplateFindings {
    faults: Vec<TemplateFinding>,
    warnings: Vec<TemplateFinding>,
}

#[derive(Serialize)]
struct TemplateFinding {
    place: String,
    problem: String,
}

impl TemplateFindings {
    pub fn for_all(renderer: &TemplateRenderer) -> Self {
        Self { faults: findings(renderer.check_all()), warnings: findings(renderer.warnings()) }
    }

    pub fn for_template(renderer: &TemplateRenderer, name: &str, folder: Option<&Path>) -> Self {
        let warnings = renderer.warnings().into_iter().filter(|warning| belongs_to(&warning.place, folder, name));
        Self { faults: findings(renderer.check_template(name)), warnings: findings(warnings) }
    }
}

fn findings(problems: impl IntoIterator<Item = TemplateProblem>) -> Vec<TemplateFinding> {
    problems.into_iter().map(|TemplateProblem { place, problem }| TemplateFinding { place, problem }).collect()
}

/// Returns `true` if e.g. `templates/reviews/body.html:12` belongs to this template or to a shared file.
fn belongs_to(place: &str, folder: Option<&Path>, name: &str) -> bool {
    let inside = folder.and_then(|folder| Path::new(place).strip_prefix(folder).ok());
    let of = inside.and_then(Path::parent);
    of.is_none_or(|of| of == Path::new("") || of == Path::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_a_file_shows_the_lines_around_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("body.html");
        fs::write(&path, "1\n2\n3\n4\n5\n6\n").unwrap();
        let place = format!("{}:2", path.display());
        let fault = |folder| {
            let error = TemplateError::Template { place: place.clone(), problem: "x".into() };
            WorkshopFault::of_templates(&error, folder)
        };
        let shown = fault(Some(folder.path())).lines;
        assert_eq!(shown.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(shown.iter().all(|line| line.has_fault == (line.number == 2)), "{shown:?}");
        assert_eq!(fault(None).lines, [], "no other file is read");
        assert_eq!(fault(Some(Path::new("/elsewhere"))).lines, []);
    }

    #[test]
    fn a_warning_concerns_its_template_or_all() {
        let folder = Some(Path::new("own"));
        for (place, concerned) in [
            ("own/reviews/body.html:12", true),
            ("own/layout.html:1", true),
            ("own/other/body.html:12", false),
            ("elsewhere", true),
        ] {
            assert_eq!(belongs_to(place, folder, "reviews"), concerned, "{place}");
        }
    }
}
