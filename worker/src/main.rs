//! The binary `tidings`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidings::cli::main()
}
