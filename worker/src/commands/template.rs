//! `tidings template`: previews and checks emails.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::json;
use tidings_mail::render::{self, RenderedEmail, TemplateRenderer};
use tidings_model::nearest_name;

use crate::{Config, config::ConfigProblem};

/// The commands about templates.
#[derive(Debug, clap::Subcommand)]
pub enum TemplateCommand {
    /// List the templates
    #[command(after_help = "Example: tidings template list")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Render a template with its sample
    #[command(
        after_help = "Examples:\n  tidings template preview activity --out preview\n  tidings template preview activity --locale pt-BR"
    )]
    Preview {
        /// The template, from `tidings template list`
        name: String,
        /// Language (BCP 47)
        #[arg(long, value_name = "TAG")]
        locale: Option<String>,
        /// Write subject.txt, body.html and body.txt to this folder instead of printing the text
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Render every template with its sample in every language, check the words, and report mistakes and what email clients
    /// do not support
    #[command(after_help = "Example: tidings template check")]
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Returns `false` if the check finds a fault.
pub(crate) fn run(command: TemplateCommand, config: &Config) -> anyhow::Result<bool> {
    let renderer = TemplateRenderer::new(config.templates.as_deref()).context("the templates cannot be read")?;
    match command {
        TemplateCommand::List { json: as_json } => {
            let names = renderer.names();
            anstream::println!("{}", if as_json { json!(names).to_string() } else { names.join("\n") });
            Ok(true)
        }
        TemplateCommand::Preview { name, locale, out } => {
            show_rendered(&renderer.preview(&name, locale.as_deref())?, out.as_deref()).map(|()| true)
        }
        TemplateCommand::Check { json } => Ok(check(&renderer, config, json)),
    }
}

pub(crate) fn show_rendered(mail: &RenderedEmail, out: Option<&Path>) -> anyhow::Result<()> {
    let Some(folder) = out else {
        anstream::println!("{BOLD}{}{BOLD:#}\n\n{}", mail.subject, mail.text.trim_end());
        return Ok(());
    };
    fs::create_dir_all(folder).with_context(|| format!("the folder {} cannot be created", folder.display()))?;
    for (name, part) in [("subject.txt", &mail.subject), ("body.html", &mail.html), ("body.txt", &mail.text)] {
        let file = folder.join(name);
        fs::write(&file, part).with_context(|| format!("{} cannot be written", file.display()))?;
        anstream::println!("{}", file.display());
    }
    Ok(())
}

/// Folders of words for tenants without a table are most likely misspelt.
pub(crate) fn words_of_nobody(renderer: &TemplateRenderer, config: &Config) -> Vec<ConfigProblem> {
    let nobodys = renderer.tenants().filter(|tenant| !config.tenants.contains_key(*tenant));
    let problem = |tenant: &str| {
        let nearest = nearest_name(tenant, config.tenants.keys().map(String::as_str));
        let meant = nearest.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
        format!("there is no [tenant.{tenant}] in tidings.toml; add the table, or rename the folder{meant}")
    };
    let of = |tenant: &str| ConfigProblem {
        place: format!("words/{tenant}"),
        key: String::new(),
        value: String::new(),
        problem: problem(tenant),
    };
    nobodys.map(of).collect()
}

fn check(renderer: &TemplateRenderer, config: &Config, as_json: bool) -> bool {
    let nobodys = words_of_nobody(renderer, config);
    let nobodys =
        nobodys.into_iter().map(|ConfigProblem { place, problem, .. }| render::TemplateProblem { place, problem });
    let problems: Vec<_> = renderer.check_all().into_iter().chain(nobodys).collect();
    if as_json {
        let lines = |found: &[render::TemplateProblem]| -> Vec<_> {
            found.iter().map(|found| json!({ "place": found.place, "problem": found.problem })).collect()
        };
        anstream::println!("{}", json!({ "problems": lines(&problems), "warnings": lines(&renderer.warnings()) }));
        return problems.is_empty();
    }
    for problem in &problems {
        anstream::eprintln!("{RED}{}{RED:#}: {}", problem.place, problem.problem);
    }
    for warning in renderer.warnings() {
        anstream::eprintln!("{YELLOW}{}{YELLOW:#}: {}", warning.place, warning.problem);
    }
    let names = renderer.names();
    if problems.is_empty() {
        anstream::println!("{} templates are valid: {}", names.len(), names.join(", "));
    }
    problems.is_empty()
}

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const YELLOW: anstyle::Style = anstyle::AnsiColor::Yellow.on_default();
const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default();
