//! Pages of a listing on the terminal.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tidings_model::records::{ListPage, PageCursor, PageRequest};

/// The wanted page. The command says in its help what the rows are.
#[derive(Debug, clap::Args)]
pub struct PageOptions<K: Clone + DeserializeOwned + Send + Sync + 'static> {
    /// The largest number of rows
    #[arg(long, value_name = "N", default_value_t = PageRequest::<K>::default().limit, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Continues after the page that ended with this cursor
    #[arg(long, value_name = "CURSOR")]
    after: Option<PageCursor<K>>,
}

impl<K: Clone + DeserializeOwned + Send + Sync + 'static> From<PageOptions<K>> for PageRequest<K> {
    fn from(PageOptions { limit, after }: PageOptions<K>) -> Self {
        Self { limit, after }
    }
}

/// Prints the cursor last, if another page follows; without JSON on stderr.
pub(super) fn print_page<T, K: Serialize>(page: ListPage<T, K>, as_json: bool, line: impl Fn(&T) -> String) {
    let ListPage { rows, next } = page;
    for row in &rows {
        anstream::println!("{}", line(row));
    }
    match next {
        Some(next) if as_json => anstream::println!("{}", json!({ "next": next })),
        Some(next) => anstream::eprintln!("more: --after {next}"),
        None => {}
    }
}
