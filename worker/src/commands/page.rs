//! A page of a listing on the terminal.

use serde::Serialize;
use serde_json::json;
use tidings_model::records::Listed;

/// Prints the rows, one line each, and the cursor if another page follows: in JSON as the last line, else on stderr.
pub(super) fn print<T, K: Serialize>(page: Listed<T, K>, as_json: bool, line: impl Fn(&T) -> String) {
    let Listed { rows, next } = page;
    for row in &rows {
        anstream::println!("{}", line(row));
    }
    match next {
        Some(next) if as_json => anstream::println!("{}", json!({ "next": next })),
        Some(next) => anstream::eprintln!("more: --after {next}"),
        None => {}
    }
}
