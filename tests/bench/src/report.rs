//! Writes the figures of target/bench into the tables of `docs/benchmarks/results.md`.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::{figure, table};

/// The line after the figures of a bench.
const END: &str = "<!-- end -->";

/// Writes the latest figures into docs/benchmarks/results.md
#[derive(Args)]
pub struct Report {}

impl Report {
    /// Reads `from`, the folder with a file for each bench.
    pub fn run(&self, from: &Path) -> Result<()> {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks/results.md");
        let mut text = fs::read_to_string(&page).with_context(|| format!("{}", page.display()))?;
        let mut files: Vec<_> = fs::read_dir(from)
            .with_context(|| format!("{}: nothing was measured yet", from.display()))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        ensure!(!files.is_empty(), "{}: nothing was measured yet", from.display());
        for file in files {
            let json = fs::read(&file)?;
            let report: figure::Report =
                serde_json::from_slice(&json).with_context(|| format!("{}; measure it again", file.display()))?;
            text = replaced(&text, &report.name, &table::markdown(&report))?;
            println!("{}: docs/benchmarks/results.md", report.name);
        }
        Ok(fs::write(page, text)?)
    }
}

/// The page with these figures between `<!-- NAME -->` and the next `<!-- end -->`.
fn replaced(page: &str, name: &str, figures: &str) -> Result<String> {
    let begin = format!("<!-- {name} -->");
    let Some((before, rest)) = page.split_once(&begin) else {
        bail!("docs/benchmarks/results.md has no place for {name}: add the lines {begin} and {END}");
    };
    let Some((_, after)) = rest.split_once(END) else { bail!("docs/benchmarks/results.md: no {END} follows {begin}") };
    Ok(format!("{before}{begin}\n{figures}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_replace_those_of_the_same_bench_and_nothing_else() {
        let page = "# Figures\n<!-- a -->\nold\n<!-- end -->\ntext\n<!-- b -->\n<!-- end -->\n";
        let new = replaced(page, "a", "new\n").unwrap();
        assert_eq!(new, "# Figures\n<!-- a -->\nnew\n\n<!-- end -->\ntext\n<!-- b -->\n<!-- end -->\n");
        assert_eq!(replaced(&new, "a", "new\n").unwrap(), new, "a second time changes nothing");
        assert!(replaced(page, "c", "new").unwrap_err().to_string().contains("<!-- c -->"));
        assert!(replaced("<!-- a -->", "a", "new").is_err());
    }
}
