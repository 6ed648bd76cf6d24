//! Explains why a message cannot be rendered, and lists findings from `tidings template check`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;
use tidings_mail::render::{Error, Problem, Renderer};

const AROUND: usize = 2;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fault {
    pub place: String,
    pub problem: String,
    pub remedy: &'static str,
    pub lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Line {
    number: usize,
    text: String,
    has_fault: bool,
}

impl Fault {
    pub fn new(place: &str, problem: impl ToString, remedy: &'static str) -> Self {
        Self { place: place.to_owned(), problem: problem.to_string(), remedy, lines: Vec::new() }
    }

    pub fn of_templates(error: &Error, folder: Option<&Path>) -> Self {
        match error {
            Error::Read { path, source } => {
                Self::new(&path.display().to_string(), source, "Let tidings dev read this file or folder.")
            }
            Error::Words(words) => {
                Self::new("words", words, "Correct the file of words. The next change of a file is shown here.")
            }
            Error::Missing { file } => {
                let problem = format!("there is no {file}");
                Self::new(file, problem, "Add the file: a template has subject.txt, body.html and body.txt.")
            }
            Error::Template { place, problem } => {
                let remedy = "Correct it there. The next change of a file is shown here.";
                Self { lines: lines(place, folder), ..Self::new(place, problem, remedy) }
            }
            Error::Unknown { names, .. } => {
                let problem = format!("there is no such template; there are: {}", names.join(", "));
                Self::new("the address", problem, "Choose a template from the list, or add a folder of this name.")
            }
        }
    }
}

fn lines(place: &str, folder: Option<&Path>) -> Vec<Line> {
    let found = || {
        let (path, line) = place.rsplit_once(':')?;
        let (path, line) = (PathBuf::from(path), line.parse::<usize>().ok()?);
        let text = path.starts_with(folder?).then(|| fs::read_to_string(&path).ok())??;
        let first = line.saturating_sub(AROUND).max(1);
        let shown = text.lines().enumerate().map(|(at, text)| (at + 1, text));
        let shown = shown.filter(|(number, _)| (first..=line + AROUND).contains(number));
        let line = |(number, text): (usize, &str)| Line { number, text: text.to_owned(), has_fault: number == line };
        Some(shown.map(line).collect())
    };
    found().unwrap_or_default()
}

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
    pub fn everywhere(renderer: &Renderer) -> Self {
        Self { faults: findings(renderer.check()), warnings: findings(renderer.warnings()) }
    }

    pub fn about(renderer: &Renderer, name: &str, folder: Option<&Path>) -> Self {
        let warnings = renderer.warnings().into_iter().filter(|warning| concerns(&warning.place, folder, name));
        Self { faults: findings(renderer.check_template(name)), warnings: findings(warnings) }
    }
}

fn findings(problems: impl IntoIterator<Item = Problem>) -> Vec<Finding> {
    problems.into_iter().map(|Problem { place, problem }| Finding { place, problem }).collect()
}

/// Returns `true` if e.g. `templates/reviews/body.html:12` belongs to this template or to a shared file.
fn concerns(place: &str, folder: Option<&Path>, name: &str) -> bool {
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
            let error = Error::Template { place: place.clone(), problem: "x".into() };
            Fault::of_templates(&error, folder)
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
            assert_eq!(concerns(place, folder, "reviews"), concerned, "{place}");
        }
    }
}
