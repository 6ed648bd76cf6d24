//! Pages of a listing on the terminal.

use std::io::{IsTerminal as _, stdout};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tidings_model::records::{ListPage, PageCursor, PageRequest};

const BOLD: anstyle::Style = anstyle::Style::new().bold();

/// The wanted page. The command says in its help what the rows are.
#[derive(Debug, clap::Args)]
pub struct PageOptions<K: Clone + DeserializeOwned + Send + Sync + 'static> {
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = PageRequest::<K>::default().limit, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Continue after the page that ended with this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<PageCursor<K>>,
}

impl<K: Clone + DeserializeOwned + Send + Sync + 'static> From<PageOptions<K>> for PageRequest<K> {
    fn from(PageOptions { limit, after }: PageOptions<K>) -> Self {
        Self { limit, after }
    }
}

/// Prints a line each. For people, a terminal also gets the header, and stderr `no WHAT` if the list is empty.
pub(super) fn print_list<T>(rows: &[T], as_json: bool, (what, header): (&str, &str), line: impl Fn(&T) -> String) {
    if rows.is_empty() && !as_json {
        anstream::eprintln!("no {what}");
    } else if !as_json && stdout().is_terminal() {
        anstream::println!("{BOLD}{header}{BOLD:#}");
    }
    for row in rows {
        anstream::println!("{}", line(row));
    }
}

/// Like [`print_list`], then the cursor, if another page follows; without JSON on stderr.
pub(super) fn print_page<T, K: Serialize>(
    page: ListPage<T, K>,
    as_json: bool,
    labels: (&str, &str),
    line: impl Fn(&T) -> String,
) {
    let ListPage { rows, next } = page;
    print_list(&rows, as_json, labels, line);
    match next {
        Some(next) if as_json => anstream::println!("{}", json!({ "next": next })),
        Some(next) => anstream::eprintln!("more: --after {next}"),
        None => {}
    }
}
